//! Which words outsiders are told for a state.

use crate::backend::Permit;
use crate::client::Phase;
use crate::client::login::attempt::Login;
use crate::outside::named::{ClientState, LoginStage, PermitState, Queue};
use crate::scheduling::scheduler::lane::Lane;

impl ClientState {
    pub(super) fn of(phase: &Phase) -> Self {
        match phase {
            Phase::AwaitingServer => Self::Connecting,
            Phase::Login(_) => Self::LoggingIn,
            Phase::Idle => Self::Idle,
            Phase::Reading(_) => Self::Reading,
            Phase::Queued => Self::Queued,
            Phase::Following { .. } => Self::Following,
            Phase::Preparing => Self::Preparing,
            Phase::Running(_) => Self::Running,
            Phase::Settling => Self::Settling,
            Phase::Killing(_) => Self::Killing,
            Phase::Lent(_) => Self::OnReplica,
        }
    }
}

impl PermitState {
    pub(super) fn of(permit: Permit) -> Self {
        match permit {
            Permit::Held => Self::Held,
            Permit::Lent => Self::Lent,
            _ => Self::None,
        }
    }
}

impl Queue {
    /// The queue of a lane. A statement in no lane is urgent.
    pub(super) fn of(lane: Option<Lane>) -> Self {
        match lane {
            None => Self::Urgent,
            Some(Lane::Blocking) => Self::Blocking,
            Some(Lane::Holding) => Self::Holding,
            Some(Lane::High | Lane::KickedUp) => Self::High,
            Some(Lane::Low) => Self::Low,
            Some(Lane::Long) => Self::Long,
            Some(Lane::Contended) => Self::Contended,
        }
    }
}

impl LoginStage {
    /// The stage of a client that has not logged in yet. A refused client is told so later, so that guessing takes its time: its stage is
    /// that in which its password was judged.
    pub(super) fn of(phase: &Phase) -> Option<Self> {
        match phase {
            Phase::AwaitingServer => Some(Self::Greeting),
            Phase::Login(Login::StartingTls) => Some(Self::Tls),
            Phase::Login(Login::Greeted | Login::Secured | Login::Judged) => Some(Self::Request),
            Phase::Login(Login::AwaitingSchema { .. }) => Some(Self::FirstBackend),
            Phase::Login(_) => Some(Self::Password),
            _ => None,
        }
    }
}
