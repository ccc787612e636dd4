# Everything runs from `.venv`, which each target makes when it is not there or when the requirements changed.
SHELL := /bin/sh
PYTHON ?= python3
ONCE ?=
MINUTES ?= 10
# Tests wait for hosts, links and browsers as much as they compute: three at a time on two cores.
WORKERS ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))

bin := .venv/bin
hash = $(shell cat $(1) | sha256sum | cut -c 1-16)
product := .venv/product-$(call hash,requirements.txt).stamp
development := .venv/development-$(call hash,requirements.txt requirements-dev.txt).stamp

.DEFAULT_GOAL := help
.PHONY: help venv demo run test lint messages test-deps bench soak clean

help:
	@echo "make demo [ONCE=1]   the product and a sample host, and the whole job on it"
	@echo "make run             the product; its first start prints a link that makes the first admin"
	@echo "make test            lint, types, import contracts, migrations, tests"
	@echo "make lint            the same without the tests"
	@echo "make messages        collect the text of pages for translation (needs GNU gettext), and compile it"
	@echo "make test-deps       by apt: the system parts that tests use"
	@echo "make bench           the engine beside scp and rsync; listings up to a million entries; a plan of a thousand packs"
	@echo "make soak [MINUTES=10]  the engine over a bad link that falls silent three times (needs root)"
	@echo "make clean           remove .venv and caches; var/ with everything that was brought home stays"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; PYTHON=… names another one." >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "The venv package of Python is needed, on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(product): | .venv/bin/python
	$(bin)/python -m pip install --disable-pip-version-check --quiet --requirement requirements.txt
	@rm -f .venv/product-*.stamp && touch $@

$(development): | .venv/bin/python
	$(bin)/python -m pip install --disable-pip-version-check --quiet --requirement requirements-dev.txt
	@rm -f .venv/product-*.stamp .venv/development-*.stamp && touch $@ $(product)

venv: $(product)

demo: $(product)
	$(bin)/python manage.py demo $(if $(ONCE),--once)

run: $(product)
	$(bin)/python manage.py up

lint: $(development)
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy .
	$(bin)/lint-imports
	$(bin)/python manage.py makemigrations --check --dry-run
	$(bin)/python manage.py check

messages: $(development)
	$(bin)/python manage.py makemessages --locale zh_Hans --no-location --no-obsolete --ignore .venv --ignore var --ignore build --ignore tests --ignore benchmarks
	$(bin)/pybabel compile --domain django --locale zh_Hans --directory locale

# First on SQLite, all of it; then what depends on the database again on a throw-away PostgreSQL.
test: lint
	$(bin)/python -m pytest --numprocesses $(WORKERS)
	$(bin)/python -m tests.postgres $(bin)/python -m pytest --numprocesses $(WORKERS) -m databases

# Only what is missing is installed: some packages would push out others that do as well.
test-deps:
	@PATH="$$PATH:/usr/sbin:/sbin"; missing=; \
	for part in sshd:openssh-server ssh:openssh-client busybox:busybox-static zstd:zstd fish:fish rsync:rsync chromium:chromium; do \
		command -v "$${part%%:*}" >/dev/null || missing="$$missing $${part#*:}"; \
	done; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing="$$missing postgresql"; \
	fc-list :lang=zh 2>/dev/null | grep -q . || missing="$$missing fonts-noto-cjk"; \
	test -n "$$missing" || { echo "Every system part that tests use is here."; exit 0; }; \
	echo "To be installed:$$missing"; \
	sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$sudo apt-get update --quiet && $$sudo apt-get install --yes --quiet --no-install-recommends $$missing

bench: $(product)
	$(bin)/python -m benchmarks.fetch_against_peers
	$(bin)/python -m benchmarks.scan_store
	$(bin)/python -m benchmarks.inventory_pages
	$(bin)/python -m benchmarks.inventory_pages --postgres || true
	$(bin)/python -m benchmarks.rule_preview
	$(bin)/python -m benchmarks.overlap_of_two
	$(bin)/python -m benchmarks.drop_on_a_board
	$(bin)/python -m benchmarks.forecast_of_many_packs
	$(bin)/python -m benchmarks.audit_chain

soak: $(product)
	$(bin)/python -m benchmarks.soak --minutes $(MINUTES)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
