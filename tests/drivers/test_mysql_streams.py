"""What drivers and ORMs say of their own accord pins nobody on MySQL either.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.streams import CREATE, STREAMS, of_mysql
from test_mysql import server  # noqa: F401 (a fixture)
from test_streams import pinned_by

pytestmark = private_mysql.needed


@pytest.fixture(scope="module")
def template_with_things(server):  # noqa: F811
    with raw.connect(server, schema="onramp_app") as connection:
        assert isinstance(connection.query(CREATE), raw.Ok)


@pytest.mark.parametrize("stream", list(map(of_mysql, STREAMS)), ids=lambda stream: stream.name)
def test_no_stream_pins(server, folder, template_with_things, stream):  # noqa: F811
    assert pinned_by(server, folder, stream) == (0, [], 0)
