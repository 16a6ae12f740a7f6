# The front door. CMake does the work; see CMakePresets.json for debug and sanitizer builds.
SHELL := /bin/sh
BUILD := build
# One job per core, but no more than one per 2.5 GiB of memory.
JOBS := $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ {n = int($$2 / 2621440); print n < 1 ? 1 : n < cores ? n : cores}' /proc/meminfo)
JOBS := $(or $(JOBS),1)
# What `make test` leaves out for want of a package is said; other targets use nothing of that.
CONFIGURE = @cmake -S . -B $(BUILD) --log-level=$(if $(filter test check check_all,$@),NOTICE,WARNING) -DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS) \
  $$([ -e $(BUILD)/CMakeCache.txt ] || ! command -v ninja >/dev/null || echo -G Ninja) > /dev/null
COMPILE = @cmake --build $(BUILD) --parallel $(JOBS)
CTEST = @ctest --test-dir $(BUILD) --parallel $(JOBS) --output-on-failure --progress --no-label-summary
ARGS :=

.DEFAULT_GOAL := help
.PHONY: help train train_vision train_tools programs variants policy_trainers npu_comparison cuda_check parallel_table test one check fuzz sanitize check_all bench speed package api format clean

help:
	@echo 'make train    build and run the quickstart: a small model learns word problems by GRPO (ARGS="key=value ...")'
	@echo 'make train_vision  the same with images: a small Qwen2.5-VL learns to read digits by GRPO'
	@echo 'make train_tools   the same with a tool: a small model learns to call a calculator'
	@echo 'make programs build every program into $(BUILD)/bin, with Parquet and MPI where they can be had'
	@echo 'make variants compare algorithms on the same small task: one table, one report (ARGS="--list")'
	@echo 'make policy_trainers  every policy trainer on the same small task, three seeds (TRAINERS="ppo" SEEDS="1")'
	@echo 'make npu_comparison   every method on the emulated NPU against the CPU, docs/npu_proof.md (ARGS="--methods sft,grpo")'
	@echo 'make cuda_check   all that an NVIDIA GPU has to confirm: bits, and speed beside PyTorch (PYTHON=... ARGS="--only decode")'
	@echo 'make parallel_table   GRPO on threads, MPI and two network namespaces: one hash; scaling (ARGS="--steps 5")'
	@echo 'make test     numbers, ranks and programs on this machine: build and run their tests'
	@echo 'make one      one test file, compiled alone: TEST=tests/train/model/trainable_model_test.cpp FILTER="*lora*"'
	@echo 'make check    as well what says the same on every machine, and longer runs: everything that each change has to pass'
	@echo 'make fuzz     every reader of files, answers and command lines against mutated input (SECONDS=60 ONLY="json text")'
	@echo 'make sanitize test programs under ASan, UBSan and TSan: hours (SANITIZE=threads ONLY="nn optim" FILTER=adamw)'
	@echo 'make check_all  what takes too long for every change: hours; sanitizers, clang, a bare system (PARTS="OpenAPI|load")'
	@echo 'make bench    build and run the benchmarks'
	@echo 'make speed    every item of docs/performance.md beside its limit; peers with PYTHON=... (ARGS="--item gemm --quick")'
	@echo 'make package  Debian packages of the library and of the programs, in $(BUILD)/package'
	@echo 'make api      the reference of the headers and the pages of docs, as HTML: $(BUILD)/api/index.html'
	@echo 'make format   clang-format on every source file'
	@echo 'make clean    remove $(BUILD)/'
	@echo 'Missing Debian packages are installed when this user may; RLCORE_SETUP=no switches that off.'

train:
	@cmake/setup.sh train
	$(CONFIGURE)
	$(COMPILE) --target quickstart
	@$(BUILD)/bin/quickstart $(ARGS)

train_vision:
	@cmake/setup.sh train
	$(CONFIGURE)
	$(COMPILE) --target quickstart
	@$(BUILD)/bin/quickstart --images $(ARGS)

programs:
	@cmake/setup.sh programs
	$(CONFIGURE)
	$(COMPILE) --target programs
	@ls $(BUILD)/bin

train_tools:
	@cmake/setup.sh train
	$(CONFIGURE)
	$(COMPILE) --target quickstart
	@$(BUILD)/bin/quickstart --tools $(ARGS)

variants:
	@cmake/setup.sh train
	$(CONFIGURE)
	$(COMPILE) --target variants
	@$(BUILD)/bin/variants $(ARGS)

policy_trainers:
	@cmake/setup.sh train
	$(CONFIGURE)
	$(COMPILE) --target quickstart grpo_trainer ppo_trainer reinforce_plus_plus_trainer dapo_trainer
	@tests/acceptance/policy_trainers.sh $(BUILD)

METHODS := sft dpo kto rm prm ppo reinforce_plus_plus grpo dapo
npu_comparison:
	@cmake/setup.sh speed
	$(CONFIGURE)
	$(COMPILE) --target quickstart compare_runs $(METHODS:%=%_trainer)
	@bench/npu_comparison.py --build $(BUILD)/bin $(ARGS)

cuda_check:
	@cmake/setup.sh speed
	$(CONFIGURE)
	$(COMPILE) --target cuda_doctor quickstart speed_bench
	@bench/cuda_check.py --build $(BUILD)/bin $(if $(PYTHON),--python $(PYTHON)) $(ARGS)

parallel_table:
	@cmake/setup.sh programs
	$(CONFIGURE)
	$(COMPILE) --target quickstart grpo_trainer
	@bench/parallel_table.py --build $(BUILD)/bin $(ARGS)

# The tiers of tests/CMakeLists.txt, each with those before it.
test: TIERS := test
check: TIERS := test check
check_all: TIERS := test check nightly
test check:
	@cmake/setup.sh test
	$(CONFIGURE)
	$(COMPILE) --target $(TIERS:%=tier_%)
	$(CTEST) --label-regex "^($$(echo $(TIERS) | tr ' ' '|'))$$"

one: export RLCORE_TEST_FILE := $(abspath $(TEST))
one:
	@[ -e "$(TEST)" ] || { echo 'make one: TEST= names a test file, such as TEST=tests/train/model/trainable_model_test.cpp' >&2; exit 1; }
	@cmake/setup.sh test
	$(CONFIGURE)
	$(COMPILE) --target test_one
	@$(BUILD)/tests/test_one $(if $(FILTER),--gtest_filter='$(FILTER)')

SECONDS := 60
fuzz:
	@cmake/setup.sh fuzz
	@tests/fuzz/run.sh $(BUILD)/fuzz $(SECONDS) $(ONLY)

# What runs in one process (an MPI library does not give back its memory), and what has threads.
MEMORY_SUITES := core tensor simd exec objective device cuda npu parallel nn optim image text data verify checkpoint rollout agent train recipes config serving
THREAD_SUITES := exec objective device parallel nn optim rollout agent train serving
SANITIZE := memory threads
sanitize:
	@cmake/setup.sh test
	@cmake/setup.sh fuzz
	$(if $(filter memory,$(SANITIZE)),@tests/preset.sh asan-ubsan "$(or $(ONLY),$(MEMORY_SUITES))" "$(FILTER)")
	$(if $(filter threads,$(SANITIZE)),@tests/preset.sh tsan "$(or $(ONLY),$(THREAD_SUITES))" "$(FILTER)")

check_all:
	@cmake/setup.sh test
	@cmake/setup.sh fuzz
	$(CONFIGURE)
	$(COMPILE) --target $(TIERS:%=tier_%)
	$(CTEST) --label-regex '^nightly$$'
	@.ci/check_all

bench:
	@cmake/setup.sh bench
	$(CONFIGURE)
	$(COMPILE) --target bench

speed:
	@cmake/setup.sh speed
	$(CONFIGURE)
	$(COMPILE) --target speed_bench catalogue_bench grpo_trainer
	@bench/speed.py --build $(BUILD)/bin $(if $(PYTHON),--python $(PYTHON)) $(ARGS)

# For any machine of this architecture, so with nothing of this one's instruction set.
package:
	@cmake/setup.sh package
	@cmake -S . -B $(BUILD)/package --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DRLCORE_PACKAGES=ON -DRLCORE_NATIVE=OFF \
	  -DRLCORE_TESTS=OFF -DRLCORE_BENCH=OFF -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib $(CMAKE_ARGS) \
	  -DRLCORE_PYARROW="$$(ls -d $(CURDIR)/$(BUILD)/venv/lib/python3*/site-packages/pyarrow 2>/dev/null)" \
	  $$([ -e $(BUILD)/package/CMakeCache.txt ] || ! command -v ninja >/dev/null || echo -G Ninja) > /dev/null
	@cmake --build $(BUILD)/package --parallel $(JOBS)
	@rm -f $(BUILD)/package/*.deb
	@cd $(BUILD)/package && cpack > cpack.log || { cat cpack.log; exit 1; }
	@ls -sh $(BUILD)/package/*.deb

api:
	@cmake/setup.sh api
	@rm -rf $(BUILD)/api && mkdir -p $(BUILD)/api
	@RLCORE_API_DIR=$(BUILD)/api doxygen docs/Doxyfile
	@echo $(BUILD)/api/index.html

format:
	@cmake/setup.sh format
	@git ls-files '*.hpp' '*.cpp' '*.inc' | xargs build/venv/bin/clang-format -i

clean:
	@rm -rf $(BUILD)
