# Every target makes or updates .venv by itself; it needs Python 3.11+, make and a package index.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo serve-demo check test test-long bench compare lint style constraints docs docs-figures dashboard-pictures reproduce-docs clean

install: .venv/.all

.venv/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "armtriage needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

# .venv/.NAME holds when the extra NAME is installed as pyproject.toml now asks.
.venv/.%: pyproject.toml | .venv/.pip
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

demo: .venv/.all
	$(BIN)/armtriage demo

# The decision service with simulated visitors, for a minute; it says where its dashboard is.
serve-demo: .venv/.all
	$(BIN)/python examples/serve_an_audience.py

lint: style
	$(BIN)/mypy

style: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

# The inner loop: make check ARGS="tests/policies -k thompson"
check: .venv/.dev
	@$(BIN)/ruff check -q . & $(BIN)/pytest -q -m "not long and not thorough" $(ARGS) && wait $$!

# For two processors: a third process uses the time that tests of the service wait; of the long tests, some of which
# measure times, each has a processor. Linear algebra needs no threads of its own.
test: PROCESSES ?= 3
test-long: PROCESSES ?= 2
test test-long: export OPENBLAS_NUM_THREADS = 1
# Bytecode is kept whatever the environment says: without it each of the processes that tests start, some hundreds, would
# compile the package again, and each process of pytest all assertions.
check test test-long: export PYTHONDONTWRITEBYTECODE =

# A file's tests share what they make, so one process has them all; short files come last. What mypy says comes at the
# end: it reads the package while kernels are compiled, which each process would do for itself, and while tests wait.
test: style .venv/.ray
	@mkdir -p build
	@$(BIN)/mypy > build/mypy.txt & types=$$!; \
	  $(BIN)/armtriage warm > build/warm.txt; \
	  $(BIN)/pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder -m "not long"; tests=$$?; \
	  wait $$types; types=$$?; cat build/mypy.txt; exit $$((tests + types))

# What takes too long for every change: the long tests, and kernels and policies once more in plain Python, and once more
# with every index checked.
# The scoreboard of docs/reliability.md is written again at the end.
test-long: .venv/.dev .venv/.ray
	rm -rf build/scores
	ARMTRIAGE_SCORES=build/scores $(BIN)/pytest -n $(PROCESSES) --dist loadgroup --hypothesis-profile=long
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n $(PROCESSES) --dist loadgroup -m plain -W "ignore:overflow:RuntimeWarning" \
	  tests/kernels tests/twins tests/policies/test_contract.py tests/simulation/test_eligible.py
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n $(PROCESSES) --dist loadfile -m "not long" tests/twins tests/policies \
	  tests/kernels tests/simulation tests/certificate tests/decisions tests/theory tests/instances
	$(BIN)/python tests/scoreboard.py build/scores docs/reliability.md

bench: .venv/.dev
	$(BIN)/python -m benchmarks $(ARGS)

# Others on the same data: make compare ARGS=contexts; ARGS=everything writes docs/compare.md. Peers have an environment of their own, into which each is
# installed by itself; one that does not install is skipped, with its reason.
compare: .venv-compare/.peers
	.venv-compare/bin/python -m benchmarks.compare $(ARGS)

.venv-compare/.peers: pyproject.toml benchmarks/compare/peers.py
	$(PYTHON) -m venv .venv-compare
	.venv-compare/bin/python -m pip install --quiet --upgrade pip
	.venv-compare/bin/python -m pip install --quiet --editable '.[features,logs]'
	.venv-compare/bin/python benchmarks/compare/peers.py
	@touch $@

# The versions that the tests ran with: pip install --constraint constraints.txt '.[all]'
constraints: .venv/.dev
	echo "# What the tests of this version ran with, on $$($(BIN)/python -V); made by make constraints." > constraints.txt
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^@ ]+$$' | sort --ignore-case >> constraints.txt

docs: .venv/.all .venv/.docs
	rm -rf site
	$(BIN)/zensical build --strict --clean
	$(BIN)/python docs/markdown_pages.py site
	@! grep -rnE --include='*.html' '<(script|link|img|iframe)[^>]+(src|href)="(https?:)?//' site || \
	  { echo "pages must load nothing from elsewhere"; exit 1; }

# The figures in docs/ that the demo, an example and a plan draw.
docs-figures: .venv/.all
	$(BIN)/armtriage demo --out build/demo
	cp build/demo/week.png docs/images/
	$(BIN)/armtriage demo --paper --out build/paper
	cp build/paper/cliques-regret.png docs/images/
	cp build/paper/slate-triage.png docs/images/triage.png
	cp build/paper/slate-certificate.png docs/images/certificate.png
	$(BIN)/python examples/inside_the_guard.py --figure docs/images/guard.png
	$(BIN)/armtriage plan --arms 30 --slots 3 --rate 0.02 --gap 0.005 --seed 7 --horizon 200000 --out docs/images/plan.png

# The pictures of docs/dashboard.md; they need a chromium on the PATH.
dashboard-pictures: .venv/.dev
	$(BIN)/python docs/dashboard_pictures.py

# The copies in docs/ of what the command makes.
reproduce-docs: .venv/.all
	$(BIN)/armtriage reproduce --out build/reproduce
	cp build/reproduce/claims.md docs/reproduce-claims.md
	cd build/reproduce/figures && cp gap-rates-gap.png ucb-failure-deterministic.png families-graphs.png ../../../docs/images/
	$(BIN)/armtriage reproduce --full --only guarded --only certificates --out build/guarded
	cp build/guarded/claims.md docs/reproduce-guarded.md
	cp build/guarded/figures/guarded-ratios.png docs/images/
	$(BIN)/armtriage reproduce --only rewards --out build/rewards
	cp build/rewards/claims.md docs/reproduce-rewards.md
	cp build/rewards/figures/rewards-laws.png docs/images/

clean:
	rm -rf .venv .venv-compare .cache site build dist
