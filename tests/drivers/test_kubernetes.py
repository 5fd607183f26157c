"""What is in deploy/kubernetes is what Kubernetes takes, and what Onramp takes: its options, ports and paths."""

import re
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from harness.containers import DEPLOY, USER, environment
from harness.metrics import ask
from harness.onramp import binary
from harness.server import free_port
from harness.waiting import PATIENCE, until

pytestmark = pytest.mark.once

KUBERNETES = DEPLOY / "kubernetes"
# The oldest that has sidecars, and the newest that the schemas are here of.
VERSIONS = ("1.29", kubernetes_validate.latest_version())
# Of operators, and of kustomize itself: the schemas are of Kubernetes alone.
FOREIGN = ("monitoring.coreos.com/", "kustomize.config.k8s.io/")


def objects(*kinds):
    """Those of these kinds, or all, of all files: the file's name and the object."""
    found = []
    for file in sorted(KUBERNETES.rglob("*.yaml")):
        for each in yaml.safe_load_all(file.read_text()):
            if not kinds or each["kind"] in kinds:
                found.append(pytest.param(each, id=f"{file.relative_to(KUBERNETES)}:{each['kind']}"))
    assert found, kinds
    return found


def one(kind, name="onramp"):
    (found,) = [each.values[0] for each in objects(kind) if each.values[0]["metadata"]["name"] == name]
    return found


def pod_of(deployment):
    return deployment["spec"]["template"]["spec"]


def onramp_of(deployment):
    """The container that is Onramp, beside an application or alone."""
    pod = pod_of(deployment)
    (container,) = [each for each in pod.get("initContainers", []) + pod["containers"] if each["name"] == "onramp"]
    return container


def options_of(deployment):
    return {each["name"]: each["value"] for each in onramp_of(deployment)["env"]}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("each", objects())
def test_kubernetes_takes_it(each, version):
    if each["apiVersion"].startswith(FOREIGN):
        assert {"apiVersion", "kind"} <= set(each)
    else:
        kubernetes_validate.validate(each, version, strict=True)


def test_a_wrong_word_is_noticed():
    deployment = one("Deployment")
    pod_of(deployment)["terminationGracePeriod"] = 60
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("deployment", objects("Deployment"))
def test_onramp_takes_the_options(deployment, tmp_path):
    """`health` reads all of them as `serve` does: what it cannot take is exit code 2, and an Onramp that is not there 1."""
    page = subprocess.run([binary(), "docs", "options"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"`(ONRAMP_[A-Z_]+)`", page))
    options = options_of(deployment)
    assert set(options) <= known
    file = tmp_path / "onramp.toml"
    shutil.copy(KUBERNETES / "example" / "onramp.toml", file)

    def health(**others):
        return subprocess.run(
            [binary(), "health"], env=environment(**{**options, "ONRAMP_CONFIG": str(file), **others}), capture_output=True, text=True, check=False)

    asked = health(ONRAMP_HTTP_LISTEN=f"127.0.0.1:{free_port()}")
    assert asked.returncode == 1 and "does not answer" in asked.stderr, asked.stderr
    assert health(ONRAMP_DRAIN_WAIT="soon").returncode == 2


def test_the_password_is_there_where_others_reach_http():
    listen = options_of(one("Deployment"))["ONRAMP_HTTP_LISTEN"]
    assert not listen.startswith("127.") and "http_password = " in (KUBERNETES / "example" / "onramp.toml").read_text()
    assert options_of(one("Deployment", "application"))["ONRAMP_HTTP_LISTEN"].startswith("127.")


def test_ports_are_those_that_it_listens_on():
    deployment = one("Deployment")
    ports = {each["name"]: each["containerPort"] for each in onramp_of(deployment)["ports"]}
    options = options_of(deployment)
    assert ports["mysql"] == int(options["ONRAMP_LISTEN"].rsplit(":", 1)[1])
    assert ports["http"] == int(options["ONRAMP_HTTP_LISTEN"].rsplit(":", 1)[1])
    for service in (one("Service"), one("Service", "onramp-http")):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    for rule in one("NetworkPolicy")["spec"]["ingress"]:
        assert all(each["port"] in ports for each in rule["ports"])


def test_all_that_selects_selects_something():
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    for selector in (
            one("Deployment")["spec"]["selector"]["matchLabels"], one("Service")["spec"]["selector"], one("Service", "onramp-http")["spec"]["selector"],
            one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
            pod_of(one("Deployment"))["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]):
        assert selector.items() <= labels
    monitor, service = one("ServiceMonitor"), one("Service", "onramp-http")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {each["name"] for each in service["spec"]["ports"]}
    # Those that end are looked at, too.
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_there_is_something_at_the_paths(server, own_onramp):
    port = free_port()
    own_onramp(server, http_listen=f"127.0.0.1:{port}", http_password="some")
    container = onramp_of(one("Deployment"))
    paths = [container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")]
    paths += [each["path"] for each in one("ServiceMonitor")["spec"]["endpoints"]]
    for path in paths:
        until(lambda path=path: ask(port, path).status == 200, path)


@pytest.mark.parametrize("deployment", objects("Deployment"))
def test_there_is_time_for_the_end(deployment):
    options = options_of(deployment)
    wait = seconds(options.get("ONRAMP_DRAIN_WAIT", "0s"))
    longest = wait + seconds(options["ONRAMP_SHUTDOWN_TIMEOUT"])
    assert pod_of(deployment)["terminationGracePeriodSeconds"] >= longest + 5
    probe = onramp_of(deployment).get("readinessProbe")
    if probe is not None:
        assert wait >= 2 * probe["periodSeconds"] * probe["failureThreshold"]


@pytest.mark.parametrize("deployment", objects("Deployment"))
def test_nothing_is_allowed_that_it_does_not_need(deployment):
    pod, container = pod_of(deployment), onramp_of(deployment)
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == USER
    assert context["seccompProfile"]["type"] == "RuntimeDefault"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert pod["enableServiceLinks"] is False, "ONRAMP_ADMIN_PORT of a Service onramp-admin would be an option"
    assert "memory" in container["resources"]["limits"]
    # YAML's octal.
    assert pod["volumes"][0]["secret"]["defaultMode"] == 0o440
    version = subprocess.run([binary(), "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert container["image"] == f"onramp:{version}"


@pytest.mark.parametrize("each", objects("Kustomization", "Component"))
def test_what_kustomize_puts_together_is_there(each):
    (folder,) = [file.parent for file in KUBERNETES.rglob("kustomization.yaml") if yaml.safe_load(file.read_text()) == each]
    named = each.get("resources", []) + each.get("components", [])
    for generator in each.get("secretGenerator", []):
        named += generator["files"]
    assert named or each["patches"]
    for name in named:
        assert (folder / name).exists(), name
    # And nothing lies beside it that nobody names.
    assert {file.name for file in folder.iterdir()} == {name for name in named if "/" not in name} | {"kustomization.yaml"}


def test_the_example_as_kustomize_puts_it_together(tmp_path):
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: the files were checked one by one")
    copy = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, copy)
    example = copy / "example" / "kustomization.yaml"
    text = example.read_text()
    assert "# - ../io-uring" in text
    example.write_text(text.replace("# - ../io-uring", "- ../io-uring"))
    built = subprocess.run(["kubectl", "kustomize", example.parent], capture_output=True, text=True, timeout=PATIENCE, check=True)
    whole = list(yaml.safe_load_all(built.stdout))
    for each in whole:
        assert each["metadata"]["namespace"] == "database"
        if not each["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
    assert sorted(each["kind"] for each in whole) == [
        "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Secret", "Service", "Service", "ServiceMonitor"]
    (deployment,) = [each for each in whole if each["kind"] == "Deployment"]
    (secret,) = [each for each in whole if each["kind"] == "Secret"]
    pod = pod_of(deployment)
    assert pod["volumes"][0]["secret"]["secretName"] == secret["metadata"]["name"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "Localhost", "localhostProfile": "profiles/onramp.json"}
    assert pod["containers"][0]["image"] == "registry.example/onramp:0.1.0"
