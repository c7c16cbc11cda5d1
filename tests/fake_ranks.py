"""This process as some rank of many, of which no other exists: nothing is sent."""

import pytest
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.fixture
def ranks():
    def begin(rank: int, count: int) -> None:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=count)

    yield begin
    if distributed.is_initialized():
        distributed.destroy_process_group()
