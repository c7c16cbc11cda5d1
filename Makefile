# Every target does its own set-up: a virtual environment in .venv with the versions pinned in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Made again when what it was made from changes.
STAMP := $(VENV)/.setup-done
# Two workers: one that has no tests left takes half of what the other has.
PYTEST := python -m pytest -n 2 --dist worksteal
# The tests start hundreds of processes: each reads compiled modules, also where the environment switches them off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup browser demo test test-slow test-oldest test-newest lint bench docs gallery clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt tools/setup.sh
	bash tools/setup.sh $(PYTHON) $(VENV) constraints.txt
	@touch $(STAMP)

# A chromium for the tests of the explorer's pages, if this machine can have one.
browser:
	bash tools/browser.sh

demo: setup
	$(BIN)/glassformer demo lm

# Some tests compute with two threads while another one runs: a thread that waits leaves its core to others.
test test-slow test-oldest test-newest: export OMP_WAIT_POLICY := passive

test: setup lint
	$(BIN)/$(PYTEST) -m "not slow"

test-slow: setup $(VENV)/.docs-done
	$(BIN)/basedpyright bench
	$(BIN)/$(PYTEST)

# The same tests with the oldest and with the newest versions that pyproject.toml allows, in environments of their own.
test-oldest:
	bash tools/setup.sh $(PYTHON) .venv-oldest constraints-oldest.txt
	.venv-oldest/bin/$(PYTEST) -m "not slow"

test-newest:
	bash tools/setup.sh $(PYTHON) .venv-newest
	.venv-newest/bin/$(PYTEST) -m "not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

bench: setup
	$(BIN)/python bench/startup.py
	@echo "side by side with a peer: python bench/train_vs_nanogpt.py --nanogpt PATH --data PATH"

# The documentation site in build/docs; what it needs is installed when it is first asked for.
docs: $(VENV)/.docs-done
	PYTHONPATH=tools $(BIN)/python -m docsite build/docs

$(VENV)/.docs-done: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@touch $@

# The models of the gallery, then their answers for docs/gallery. Half an hour.
gallery: setup browser
	for demo in lm:450 translate:250 tag:150 classify:100 vision:800 audio:400 vqa:120; do \
	  $(BIN)/glassformer demo $${demo%:*} --steps $${demo#*:} --run runs/gallery/demo-$${demo%:*} || exit 1; done
	PYTHONPATH=tools $(BIN)/python -m docsite.export runs/gallery docs/gallery

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest build .pytest_cache .ruff_cache .hypothesis
