# Every command of this project; CI calls the same targets. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test check test-api test-cluster bench proto manifests docs lab-build lock dev gcc

VENV := .venv
export VENV
BIN := $(VENV)/bin
# A change of what is installed, or of the place where the tree lies, asks for a new installation.
STAMP := $(VENV)/.installed-$(shell { cat pyproject.toml requirements.lock; pwd -P; } | sha256sum | cut -c1-16)
PYTEST := $(BIN)/pytest $(PYTEST_ARGS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## the whole path on this machine without a cluster or a GPU, checked; needs Python 3.11 or newer
	$(BIN)/sublet demo --check

test: $(STAMP) gcc ## unit, property and contract tests, a real nats-server, the embedded API server; no root, no Go
	$(PYTEST) -m "not api and not cluster"

check: $(STAMP) ## lint, format, types, import contracts; generated code and reference pages are fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	tools/protofresh.sh
	$(BIN)/python -m tools.reference --check

test-api: $(STAMP) ## the tests on a real kube-apiserver; needs Go the first time
	tools/lab.sh api
	$(PYTEST) -m "api and not cluster"

test-cluster: $(STAMP) gcc ## test-api and the tests on real kubelets; needs Linux, root, Go the first time
	tools/lab.sh cluster
	$(PYTEST) -m "api or cluster"

bench: $(STAMP) ## measure, and write the figures into docs/; TRACES=DIR with the openb trace judges placement too
	$(BIN)/python -m bench
	$(if $(TRACES),$(BIN)/python -m bench.quality --traces $(TRACES))

proto: $(STAMP) ## generate sublet/v1, sublet/kubelet and sublet/amd from proto/
	tools/proto.sh

manifests: $(STAMP) ## accept today's renders of the Kustomize overlays as reviewed; read the diff
	tools/lab.sh api
	$(BIN)/python -m tests.manifests.rendering

docs: $(STAMP) ## generate docs/reference from the code
	$(BIN)/python -m tools.reference

lab-build: ## build all that the tests on real clusters need into ~/.cache/sublet-lab
	tools/lab.sh cluster

lock: ## resolve requirements.lock anew from pyproject.toml; needs uv
	uv pip compile --universal --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url --no-annotate \
	  --custom-compile-command "make lock" --extra dev pyproject.toml services/build-requirements.txt -o requirements.lock

dev: $(STAMP) ## install everything for work on the code into .venv
	@echo "source $(BIN)/activate"

gcc:
	@command -v gcc >/dev/null || tools/packages.sh gcc libc6-dev

$(STAMP): pyproject.toml requirements.lock
	@tools/venv.sh $@
