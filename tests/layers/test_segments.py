"""The pool of pages: nothing is given twice, and everything comes back."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.layers.segments import PAGE, Pool


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=40))
def test_pages_are_never_shared_and_all_come_back(actions):
    pool, held = Pool(1, 1, 1, 12), []
    for takes, number in actions:
        if takes:
            first = pool.take(number)
            if first is not None:
                held.append((first, number))
                pool.numbers[:, :, :, first * PAGE : (first + number) * PAGE] = 1
            else:  # there is no such run of free pages
                taken = {page for begin, n in held for page in range(begin, begin + n)}
                runs = "".join("x" if page in taken else "." for page in range(12)).split("x")
                assert max(map(len, runs)) < number
        elif held:
            pool.give(*held.pop(number % len(held)))
        pages = [page for first, n in held for page in range(first, first + n)]
        assert len(pages) == len(set(pages))
        assert pool.n_free == 12 - len(pages)
        assert float(pool.numbers[0, 0].sum()) == len(pages) * PAGE
    for first, number in held:
        pool.give(first, number)
    assert pool.runs == [(0, 12)]


def test_a_page_is_copied_in_every_layer():
    pool = Pool(2, 1, 4, 3)
    pool.numbers[:] = torch.randn(pool.numbers.shape)
    pool.copy(0, 2)
    pages = pool.numbers.unflatten(3, (3, PAGE))
    assert torch.equal(pages[:, :, :, 2], pages[:, :, :, 0])
    assert not torch.equal(pages[:, :, :, 1], pages[:, :, :, 0])
