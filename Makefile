# make help lists what there is. Everything is built below $(BUILD); generated code is never committed.
BUILD ?= build
Q = @
ifeq ($(origin CC),default)
CC = gcc
endif
PKGS = raft libuv liblz4 libprotobuf-c libcurl libnghttp2 openssl jansson yaml-0.1 libmicrohttpd smartcols expat
WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough
# clang calls two things wrong that gcc lets pass: designated fields without the others, which are 0, and a format handed on to vsnprintf
# a sanitizer's code hides from gcc how long a text can be
WARN += $(if $(SAN),-Wno-format-truncation)
WARN += $(if $(findstring clang,$(CC)),-Wno-missing-field-initializers -Wno-format-nonliteral -Wno-unknown-warning-option)
# -g1 has the lines of backtraces, in four fifths of the time; make OPT="-O2 -g" for gdb
OPT ?= -O2 -g1
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -fno-strict-aliasing -fstack-protector-strong -fno-omit-frame-pointer -pthread -MMD -MP -I. -I$(BUILD)/gen -DCKPT_VERSION='"$(VERSION)"' $(OPT) $(SAN)
# a program depends on the libraries that it calls, not on all of PKGS
LDFLAGS_ALL = -pthread $(SAN) -Wl,-z,relro,-z,now,--as-needed
VERSION = 0.2.0
# commit and date of what is built, where this folder is a checkout; + where files were changed
BUILD_ID := $(shell [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$(CURDIR)" ] && git log -1 --abbrev=12 --format="%h$$(git diff-index --quiet HEAD -- 2>/dev/null || echo +), %cs" 2>/dev/null)
# where make install puts things; of libckptapp the number in its shared library's name
PREFIX ?= /usr/local
PYTHON_FOLDER ?= $(PREFIX)/lib/python3/dist-packages
APP_ABI = 0
APP_FILES = $(BUILD)/lib/libckptapp.a $(BUILD)/lib/libckptapp.so.$(APP_ABI)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)

# ---- layers: a folder is an archive; what a layer may link is its line (tests/lint checks the includes) ----
LAYERS = base tls net serve proto fsm raft eval whatif rpc dest ask profile backup telemetry client broker agent app cli
DIR_base = src/base
DIR_tls = src/tls
DIR_net = src/net
DIR_serve = src/serve
DIR_fsm = fsm
DIR_raft = raft
DIR_eval = src/eval
DIR_whatif = src/whatif
DIR_rpc = src/rpc
DIR_dest = src/dest
DIR_ask = src/ask
DIR_profile = src/profile
DIR_backup = src/backup
DIR_telemetry = src/telemetry
DIR_client = src/client
DIR_broker = src/broker
DIR_agent = src/agent
DIR_app = src/app
DIR_cli = src/cli
USE_base = base
USE_tls = tls base
USE_net = net tls base
USE_serve = serve tls base
USE_proto = proto
USE_fsm = fsm proto base
USE_raft = raft net tls base
USE_eval = eval base
USE_whatif = whatif eval base
USE_rpc = rpc net tls proto base
USE_dest = dest base
USE_ask = ask rpc net tls proto base
USE_profile = profile ask rpc net serve tls proto base
USE_backup = backup dest proto base
USE_telemetry = telemetry base
USE_client = client rpc net tls proto base
USE_broker = broker eval backup dest telemetry rpc raft net serve tls fsm proto base
USE_agent = agent cli profile ask whatif eval client rpc backup dest fsm raft net serve tls proto base
USE_app = app
USE_cli = cli whatif eval client profile ask rpc backup dest net serve tls fsm proto base

PROTOS = $(wildcard proto/ckpt/v1/*.proto proto/ckpt/log/v1/*.proto proto/ckpt/agent/v1/*.proto proto/criu/*.proto proto/grpc/health/v1/*.proto proto/grpc/reflection/v1alpha/*.proto)
# what clients ask for by server reflection: not what an agent writes for itself
PROTOS_TOLD = $(filter-out proto/ckpt/agent/% proto/criu/%,$(PROTOS))
GEN_C = $(PROTOS:proto/%.proto=$(BUILD)/gen/%.pb-c.c)
# what `ckptctl register --help` says of a field is its comment in the .proto
SPEC_HELP = $(BUILD)/gen/ckpt/v1/allocation_spec_help.h
# what members of earlier builds do not know, of what enters the log and snapshots
PROTOS_LOGGED = $(addprefix proto/ckpt/,v1/common.proto v1/broker.proto v1/agent.proto v1/drill.proto log/v1/command.proto log/v1/snapshot.proto)
LEVELS = $(BUILD)/gen/ckpt/levels.h
GEN_H = $(GEN_C:.c=.h) $(SPEC_HELP) $(LEVELS)

# *main.c is a program, everything else goes into its layer's archive
SRC_of = $(filter-out %main.c,$(wildcard $(DIR_$(1))/*.c $(DIR_$(1))/*/*.c))
OBJ_of = $(patsubst %.c,$(BUILD)/%.o,$(call SRC_of,$(1)))
LIB_of = $(foreach l,$(USE_$(1)),$(BUILD)/lib/lib$(l).a)

PROGRAMS = ckptd ckpt-agentd ckpt-run ckptctl ckpt-worker ckpt-worker-s3
MAIN_ckptd = src/broker/daemon/main.c
LAYER_ckptd = broker
MAIN_ckpt-agentd = src/agent/daemon/main.c
LAYER_ckpt-agentd = agent
MAIN_ckpt-run = src/agent/run/run_main.c
LAYER_ckpt-run = agent
MAIN_ckptctl = src/cli/main.c
LAYER_ckptctl = cli
MAIN_ckpt-worker = src/dest/worker_main.c
LAYER_ckpt-worker = dest
MAIN_ckpt-worker-s3 = src/dest/s3/s3_worker_main.c
LAYER_ckpt-worker-s3 = dest
# programs that tests and the demo run, not installed
SUPPORT = $(filter-out $(MPI),$(patsubst tests/support/%_main.c,%,$(wildcard tests/support/*_main.c)))
# ... and those that need mpicc: for `make systems`
MPI = mpi_heat
BENCH = $(patsubst tests/bench/%_main.c,%,$(wildcard tests/bench/*_main.c))

# the two commands of the README build on all cores unless told otherwise
PARALLEL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: FORCE all programs deps demo test systems systems-long lint unit golden golden-update fuzz-smoke fuzz fuzzers integration kills bench bench-data bench-policy bench-eval t asan ubsan tsan format tidy cover compdb docs clean help install-app install uninstall deb

all: programs                                   ## build the programs (default)
programs: $(PROGRAMS:%=$(BUILD)/bin/%) $(SUPPORT:%=$(BUILD)/bin/%) $(APP_FILES)

# makes the folder of a target, once for all that are made in it: a process for each of a thousand objects is seconds of a build
FOLDER = $(if $(made_$(@D)),,$(shell mkdir -p $(@D))$(eval made_$(@D) := yes))

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h: proto/%.proto
	@mkdir -p $(BUILD)/gen/google/protobuf
	@# level.proto has options alone, of which no code is made; protoc-c includes what it is made of all the same
	@test -e $(BUILD)/gen/google/protobuf/descriptor.pb-c.h || : > $(BUILD)/gen/google/protobuf/descriptor.pb-c.h
	$(Q)protoc --c_out=$(BUILD)/gen -Iproto $<
	@# the method Register becomes a member named like a C keyword
	@sed -i 's/(\*register)/(*register_)/' $(BUILD)/gen/$*.pb-c.h
$(SPEC_HELP): proto/ckpt/v1/common.proto proto/field_help.awk
	$(FOLDER)
	$(Q)awk -v message=AllocationSpec -f proto/field_help.awk $< > $@
$(LEVELS): proto/levels.awk $(PROTOS_LOGGED)
	$(FOLDER)
	$(Q)awk -f $^ > $@
$(BUILD)/gen/descriptors.bin: $(PROTOS_TOLD)
	$(FOLDER)
	$(Q)protoc -Iproto --include_imports --descriptor_set_out=$@ $(PROTOS_TOLD)
$(BUILD)/gen/descriptors.o: $(BUILD)/gen/descriptors.bin
	$(Q)printf '.section .rodata\n.global ckpt_descriptors\n.global ckpt_descriptors_end\nckpt_descriptors:\n.incbin "%s"\nckpt_descriptors_end:\n.byte 0\n.section .note.GNU-stack,"",%%progbits\n' $< | $(CC) -x assembler -c -o $@ -

# the profiles that are built in, one behind the other: name, NUL, text, NUL
PROFILES = $(sort $(wildcard deploy/profiles/*.yaml))
$(BUILD)/gen/profiles.bin: $(PROFILES) deploy/profiles
	$(FOLDER)
	$(Q)for file in $(PROFILES); do basename -z $$file .yaml; cat $$file; printf '\0'; done > $@
$(BUILD)/gen/profiles.o: $(BUILD)/gen/profiles.bin
	$(Q)printf '.section .rodata\n.global ckpt_profiles\n.global ckpt_profiles_end\nckpt_profiles:\n.incbin "%s"\nckpt_profiles_end:\n.byte 0\n.section .note.GNU-stack,"",%%progbits\n' $< | $(CC) -x assembler -c -o $@ -
$(BUILD)/lib/libprofile.a: $(BUILD)/gen/profiles.o

# into programs alone: tests would be made anew with each commit
$(BUILD)/gen/build_id.c: FORCE
	$(FOLDER)
	@printf '#include "src/base/build.h"\nconst char build_text[] = "%s";\n' "$(VERSION)$(if $(BUILD_ID), ($(BUILD_ID)))" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c | $(GEN_H)
	$(Q)$(CC) $(CFLAGS_ALL) -w $(GEN_SAN) -c -o $@ $<
# the state machine is integers only: no floating point registers in its objects
$(BUILD)/fsm/%.o: fsm/%.c | $(GEN_H)
	$(FOLDER)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARN) $(if $(SAN),,$(GENERAL_REGS)) -c -o $@ $<
# ... and so are the steps of an agent's job
define INTEGERS_RULE
$$(BUILD)/src/agent/job/%_$(1).o: src/agent/job/%_$(1).c | $$(GEN_H)
	$$(FOLDER)
	$$(Q)$$(CC) $$(CFLAGS_ALL) $$(WARN) $$(if $$(SAN),,$$(GENERAL_REGS)) -c -o $$@ $$<
endef
$(foreach kind,step state,$(eval $(call INTEGERS_RULE,$(kind))))
GENERAL_REGS := $(if $(filter x86_64 aarch64,$(shell uname -m)),-mgeneral-regs-only)
# loops of the decision model become vector instructions; these flags change no result
$(BUILD)/src/eval/%.o: OPT += -O3 -fno-math-errno -fno-trapping-math
# what a person starts computes next to nothing: a third of its compilation is what -O2 takes more
$(BUILD)/src/cli/%.o $(BUILD)/src/agent/run/%.o: OPT := $(patsubst -O2,-O1,$(OPT))
# libckptapp goes into programs and libraries of others: position-independent, and only the calls of its header are seen
$(BUILD)/src/app/%.o: OPT += -fPIC -fvisibility=hidden
# the simulator's own part of a run is small: what it runs is the product, optimised as it ships
$(BUILD)/tests/sim/%.o: OPT = -O1 -g1
# cmocka's assertions take four times as long to compile optimised, and tests compute next to nothing themselves
$(BUILD)/tests/unit/%.o $(BUILD)/tests/golden/%.o $(BUILD)/tests/fuzz/%.o: OPT = -O0 -g1 -U_FORTIFY_SOURCE
$(BUILD)/tests/unit/dest/patterns.o: OPT = -O1 -g1
$(BUILD)/%.o: %.c | $(GEN_H)
	$(FOLDER)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARN) $(PKG_CFLAGS) -c -o $@ $<

$(BUILD)/lib/libproto.a: $(GEN_C:.c=.o) $(BUILD)/gen/descriptors.o
	$(FOLDER)
	@rm -f $@
	$(Q)ar rcs $@ $^
define LAYER_RULE
$(BUILD)/lib/lib$(1).a: $(call OBJ_of,$(1))
	$$(FOLDER)
	@rm -f $$@
	$(Q)ar qcs $$@ $$(filter %.o,$$^)
endef
$(foreach l,$(filter-out proto,$(LAYERS)),$(eval $(call LAYER_RULE,$(l))))

# libckptapp as customers get it, and its Python module
$(BUILD)/lib/libckptapp.a: $(BUILD)/lib/libapp.a
	$(Q)cp $< $@
$(BUILD)/lib/libckptapp.so.$(APP_ABI): $(BUILD)/lib/libapp.a
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libckptapp.so.$(APP_ABI),-z,defs -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive
	$(Q)ln -sf libckptapp.so.$(APP_ABI) $(BUILD)/lib/libckptapp.so
install-app: $(APP_FILES)                       ## libckptapp and its Python module: make install-app PREFIX=/usr/local DESTDIR=
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 src/app/ckptapp.h src/app/ckptshm.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/lib/libckptapp.a $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(BUILD)/lib/libckptapp.so.$(APP_ABI) $(DESTDIR)$(PREFIX)/lib
	ln -sf libckptapp.so.$(APP_ABI) $(DESTDIR)$(PREFIX)/lib/libckptapp.so
	sed -e 's,@PREFIX@,$(PREFIX),;s,@VERSION@,$(VERSION),' src/app/ckptapp.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/ckptapp.pc
	install -d $(DESTDIR)$(PYTHON_FOLDER)
	install -m 644 python/ckptapp.py python/ckptshm.py $(DESTDIR)$(PYTHON_FOLDER)

define PROGRAM_RULE
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(MAIN_$(1))) $(BUILD)/gen/build_id.o $(call LIB_of,$(LAYER_$(1)))
	$$(FOLDER)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $$@ $$(filter %.o %.a,$$^) $(PKG_LIBS) -lm
endef
$(foreach p,$(PROGRAMS),$(eval $(call PROGRAM_RULE,$(p))))
# support programs link base, or the closure of the layer in SUPPORT_LAYER_name
SUPPORT_LAYER_rpc_echo = rpc
SUPPORT_LAYER_rpc_ask = rpc
SUPPORT_LAYER_grpc_app = rpc
SUPPORT_LAYER_app_driver = app
SUPPORT_LAYER_app_line = agent
SUPPORT_LAYER_threads_app = app
define SUPPORT_RULE
$(BUILD)/bin/$(1): $(BUILD)/tests/support/$(1)_main.o $(call LIB_of,$(or $(SUPPORT_LAYER_$(1)),base))
	$$(FOLDER)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $$@ $$(filter %.o %.a,$$^) $(if $(SUPPORT_LAYER_$(1)),$(PKG_LIBS)) -lm
endef
$(foreach s,$(SUPPORT),$(eval $(call SUPPORT_RULE,$(s))))
$(BUILD)/bin/mpi_heat: tests/support/mpi_heat_main.c tests/support/program.h $(BUILD)/lib/libapp.a
	$(FOLDER)
	$(Q)mpicc -std=c11 -D_GNU_SOURCE $(WARN) -I. $(OPT) -o $@ $(filter %.c %.a,$^)
# a client for benchmarks that is nobody's own: Go's gRPC as Debian has it (deploy/install-deps.sh bench); protoc takes all files of a Go package at once
GO_PROTOS = $(addprefix proto/ckpt/v1/,common.proto agent.proto explain.proto broker.proto)
$(BUILD)/bench/load_go: tests/bench/load.go tests/bench/etcd.proto $(GO_PROTOS)
	@mkdir -p $(@D)/go/src/etcdserverpb
	$(Q)protoc --go_out=plugins=grpc:$(@D)/go/src -Iproto $(GO_PROTOS)
	$(Q)protoc --go_out=plugins=grpc:$(@D)/go/src/etcdserverpb -Itests/bench tests/bench/etcd.proto
	$(Q)GO111MODULE=off GOPATH=$(abspath $(@D)/go):/usr/share/gocode GOCACHE=$(abspath $(@D)/go/cache) go build -o $@ $<
# benchmarks may use every layer
$(BUILD)/bench/%: $(BUILD)/tests/bench/%_main.o $(foreach l,client agent ask whatif $(USE_broker),$(BUILD)/lib/lib$(l).a)
	$(FOLDER)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o %.a,$^) $(PKG_LIBS) -lm

# ---- tests: tests/unit/LAYER/test_*.c link LAYER's closure; tests/golden, tests/fuzz likewise by their first word ----
# what of the simulator the unit tests of raft/ and src/agent use
SIM_CORE = $(BUILD)/tests/sim/sim.o $(BUILD)/tests/sim/sim_disk.o $(BUILD)/tests/sim/sim_disk_faults.o $(BUILD)/tests/sim/sim_network.o $(BUILD)/tests/sim/sim_network_faults.o
UNIT_SRC = $(wildcard tests/unit/*/test_*.c)
UNIT_BIN = $(UNIT_SRC:%.c=$(BUILD)/%)
# some 320 programs of tests are linked: without debugging information, and by gold where it is there, in a quarter of ld's time (make TEST_LD= keeps it, for gdb)
TEST_LD := $(if $(SAN),,-Wl,--strip-debug) $(shell $(CC) -fuse-ld=gold -Wl,--version > /dev/null 2>&1 && echo -fuse-ld=gold)
define UNIT_RULE
$(BUILD)/tests/unit/$(1)/test_%: $(BUILD)/tests/unit/$(1)/test_%.o $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/unit/$(1)/test_*.c),$(wildcard tests/unit/$(1)/*.c))) $(if $(filter raft agent,$(1)),$(SIM_CORE)) $(call LIB_of,$(1))
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LD) -o $$@ $$(filter %.o %.a,$$^) $(PKG_LIBS) -lcmocka -lm
endef
$(foreach l,$(LAYERS),$(eval $(call UNIT_RULE,$(l))))

# programs that passed, by what they are made of (tests/run.py): they do not run again until that changes
REMEMBER = $(if $(ALL),,--changed $(BUILD)/passed)
RUN = BUILD=$(abspath $(BUILD)) JOBS=$(or $(JOBS),$(shell expr 2 \* $$(nproc))) WAITING_JOBS=$(WAITING_JOBS) tests/run.py
unit: $(UNIT_BIN)                               ## unit tests that changed since they passed; all of them: make unit ALL=1
	$(Q)$(RUN) $(REMEMBER) $(UNIT_BIN)
check: programs $(UNIT_BIN) $(GOLDEN_BIN) $(SIM_BIN) ## while you work: lint, goldens, 40 simulated runs, the unit tests that a change can reach
	$(Q)BUILD=$(abspath $(BUILD)) tests/run.py tests/lint/lint.sh tests/sim/check.sh $(GOLDEN_BIN)
	$(Q)$(RUN) $(REMEMBER) $(UNIT_BIN)
t:                                              ## tests of a name: make t T=lifecycle; T=integration/agent [CASES=...]; make t lists all
	@+BUILD='$(BUILD)' MAKE='$(MAKE)' FUZZ_SAN='$(FUZZ_SAN)' MPI='$(MPI)' /usr/bin/python3 -B tests/named.py '$(T)' $(CASES)

# the simulator: the shipping code of raft/, fsm/, src/broker, src/agent and src/client on a simulated world (tests/sim/README.md)
SIM_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/sim/*.c))
SIM_BIN = $(BUILD)/tests/sim/simulate
# broker before agent: the agents of the world need no configuration
$(SIM_BIN): $(SIM_OBJ) $(foreach l,client broker agent ask $(filter-out broker,$(USE_broker)),$(BUILD)/lib/lib$(l).a)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o %.a,$^) $(PKG_LIBS) -lm

.PHONY: sim sim-many sim-unsafe sim-mutants
sim: $(SIM_BIN)                                 ## one simulated run: make sim SEED=7 [REPLICAS=5] [OPTIONS="crashes=0 verbose=1"]
	$(SIM_BIN) seed=$(or $(SEED),1) replicas=$(or $(REPLICAS),3) $(if $(UNSAFE),unsafe=$(UNSAFE)) $(OPTIONS)
# optimised as a whole: an eighth faster, which building it takes back only in long runs
SIM_MANY = $(BUILD)/lto/tests/sim/simulate
sim-many:                                       ## many, 60 simulated seconds each: make sim-many N=1000 [SEED=1] [REPLICAS=5]
	$(MAKE) --no-print-directory BUILD=$(BUILD)/lto OPT="-O2 -g -flto=auto" $(SIM_MANY)
	$(SIM_MANY) seed=$(or $(SEED),1) runs=$(or $(N),1000) jobs=2 replicas=$(or $(REPLICAS),3) $(OPTIONS)

sim-unsafe: $(SIM_BIN)                          ## switches each safety rule off until a run shows what it is for
	BUILD=$(abspath $(BUILD)) tests/sim/unsafe.sh $(RULES)

sim-mutants: $(SIM_BIN)                         ## breaks the product in each way of tests/sim/mutants in a copy: the checks must find it [NAMES=...]
	BUILD=$(abspath $(BUILD)) tests/sim/mutants.sh $(NAMES)

GOLDEN_BIN = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/golden/golden_*.c))
$(BUILD)/tests/golden/golden_%: $(BUILD)/tests/golden/golden_%.o $(call LIB_of,fsm)
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LD) -o $@ $(filter %.o %.a,$^) $(PKG_LIBS) -lm
$(BUILD)/tests/golden/golden_job $(BUILD)/tests/golden/golden_restore: %: %.o $(call LIB_of,agent)
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LD) -o $@ $(filter %.o %.a,$^) $(PKG_LIBS) -lm
golden: $(GOLDEN_BIN)                           ## transcripts of the state machine, and of an agent's job and restore
	$(Q)$(RUN) $(GOLDEN_BIN)
golden-update: $(GOLDEN_BIN)                    ## rewrite the transcripts; review the diff
	for g in $(GOLDEN_BIN); do $$g --update; done

# fuzz targets: tests/fuzz/fuzz_LAYER_what.c with LLVMFuzzerTestOneInput; smoke runs use a seeded driver under ASan and UBSan
FUZZ_SRC = $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_SAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=pointer-overflow,shift,nonnull-attribute
fuzz_layer = $(word 2,$(subst _, ,$(notdir $(1))))
# the program around a target: the seeded driver, or libFuzzer's own
FUZZ_MAIN = $(BUILD)/tests/support/fuzz_driver.o
LIBFUZZER = BUILD=$(BUILD)/libfuzzer CC=clang SAN="-fsanitize=fuzzer-no-link,address" OPT="-O1 -g" FUZZ_MAIN= FUZZ_LINK=-fsanitize=fuzzer
define FUZZ_RULE
$(BUILD)/tests/fuzz/$(basename $(notdir $(1))): $(BUILD)/tests/fuzz/$(basename $(notdir $(1))).o $(FUZZ_MAIN) $(call LIB_of,$(call fuzz_layer,$(1)))
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LD) $(FUZZ_LINK) -o $$@ $$(filter %.o %.a,$$^) $(PKG_LIBS) -lm
endef
$(foreach f,$(FUZZ_SRC),$(eval $(call FUZZ_RULE,$(f))))
FUZZ_BIN = $(FUZZ_SRC:%.c=$(BUILD)/%)
fuzz-bins: $(FUZZ_BIN)
fuzz-smoke:                                     ## each fuzz target for a few seconds, sanitizers on
	$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz SAN="$(FUZZ_SAN)" OPT="-O1 -g" fuzz-bins
	$(Q)$(RUN) $(FUZZ_SRC:%.c=$(BUILD)/fuzz/%)
fuzz: deps                                      ## libFuzzer on one target: make fuzz F=fsm_command (needs clang)
	$(MAKE) --no-print-directory $(LIBFUZZER) $(BUILD)/libfuzzer/tests/fuzz/fuzz_$(F)
	mkdir -p $(BUILD)/corpus/$(F) && $(BUILD)/libfuzzer/tests/fuzz/fuzz_$(F) -max_total_time=$(or $(SECONDS_MAX),60) -artifact_prefix=$(BUILD)/corpus/$(F). $(BUILD)/corpus/$(F)
fuzzers:                                        ## ... and the programs of all targets, in $(BUILD)/libfuzzer/tests/fuzz
	$(MAKE) --no-print-directory $(LIBFUZZER) fuzz-bins

.PHONY: sizes
sizes:                                          ## lines, assertions per function, comments by folder
	@python3 tests/lint/sizes.py
lint:                                           ## layering, purity, banned calls, lengths, format
	tests/lint/lint.sh $(BUILD)
INTEGRATION = $(sort $(wildcard tests/integration/test_*.py))
# integration tests wait for real processes more than they compute; those against real systems compute as much
WAITING_JOBS = $(or $(JOBS),$(shell expr 6 \* $$(nproc)))
SYSTEMS_JOBS = $(or $(JOBS),$(shell expr 5 \* $$(nproc) / 2))
integration: programs                           ## real processes
	$(Q)$(RUN) $(INTEGRATION)
kills: programs                                 ## leader kills under load: make kills KILLS=1000 [MEMBERS=5]
	KILLS=$(or $(KILLS),1000) BUILD=$(abspath $(BUILD)) /usr/bin/python3 tests/integration/test_faults_kills.py a_leader_killed
deps:                                           ## install missing packages (root or sudo)
	deploy/install-deps.sh
demo: deps                                      ## the main job, end to end, under 90 s
	$(MAKE) --no-print-directory $(PARALLEL) programs
	BUILD=$(abspath $(BUILD)) /usr/bin/python3 deploy/demo/demo.py
test: deps                                      ## everything CI runs, but for the real systems
	$(MAKE) --no-print-directory $(PARALLEL) programs
	@# the tests are compiled beside those of real processes, which wait more than they compute
	$(Q)FUZZ_SECONDS=.4 TEST_TIMEOUT_S=1800 $(RUN) --first "$(BUILD_TESTS)" tests/lint/lint.sh tests/sim/short.sh $(UNIT_BIN) $(GOLDEN_BIN) \
		$(FUZZ_BIN) $(INTEGRATION)
# the name of the folder as make has it: objects whose .d files name another one are never made anew
BUILD_TESTS = $(MAKE) --no-print-directory $(PARALLEL) BUILD=$(BUILD) test-programs
.PHONY: check test-programs systems-programs systems-rest
test-programs: $(UNIT_BIN) $(GOLDEN_BIN) $(SIM_BIN) $(FUZZ_BIN)
systems-programs: programs $(BUILD)/bench/agents
	-$(Q)deploy/install-deps.sh systems
	$(Q)if command -v mpicc > /dev/null; then $(MAKE) --no-print-directory $(MPI:%=$(BUILD)/bin/%); fi
systems: systems-programs                       ## against real systems that are not ours; skips what cannot be installed
	@# real programs under each fault, one after the other in a file: their limit is that of a test that hangs
	$(Q)$(RUN_SYSTEMS) $(sort $(wildcard tests/systems/test_*.py))
RUN_SYSTEMS = BUILD=$(abspath $(BUILD)) WAITING_JOBS=$(SYSTEMS_JOBS) TEST_TIMEOUT_S=2400 tests/run.py
systems-rest: systems-programs                  ## the cases and rounds that make test and make systems have no time for
	$(Q)LONG=1 $(RUN_SYSTEMS) $(shell grep -lE 'long=|faults\.split|often\(' tests/systems/test_*.py tests/integration/test_*.py)
systems-long:                                   ## what proves the tests, two hours: systems-rest, sim-unsafe, sim-mutants, sanitizers, libFuzzer [STEPS="asan fuzz-*"]
	+$(Q)BUILD=$(BUILD) tests/long.sh $(STEPS)
bench: deps                                     ## figures beside etcd's: commits by a stock Go client, failover, evaluation, scale; then bench-data
	$(Q)deploy/install-deps.sh bench
	$(MAKE) --no-print-directory programs $(BENCH:%=$(BUILD)/bench/%) $(BUILD)/bench/load_go
	$(BUILD)/bench/ask
	BUILD=$(abspath $(BUILD)) /usr/bin/python3 tests/bench/bench.py; status=$$?; \
		$(MAKE) --no-print-directory bench-data && exit $$status
bench-data: programs                            ## checkpoints' data beside cp, openssl and writing by hand, and to an object store beside other tools: some forty minutes, 30 GiB of disk
	@status=0; for figures in "ways.py 40" "alone.py 8" dest.py "request.py 4096 3" "request.py 4096 3 direct" "restart.py 256 3" "comeback.py 256 3" "s3.py 4 3"; do \
		BUILD=$(abspath $(BUILD)) /usr/bin/python3 tests/bench/$$figures || { echo "missed: $$figures" >&2; status=1; }; done; exit $$status

bench-policy: $(BUILD)/bench/policy             ## waste beside Young/Daly: SEEDS=12 TRACES=folder-of-failure-traces PART=name FIRST=seed
	$(BUILD)/bench/policy $(or $(SEEDS),12) "$(TRACES)" "$(PART)" $(FIRST)
bench-eval: $(BUILD)/bench/eval $(BUILD)/bench/keep ## a million jobs decided about, beside reading their inputs once; cycles of a million
	$(BUILD)/bench/eval
	$(BUILD)/bench/keep

SANITIZED = $(MAKE) --no-print-directory ALL=1 unit golden
asan:                                           ## unit and golden tests under AddressSanitizer
	+$(SANITIZED) BUILD=$(BUILD)/asan SAN="-fsanitize=address" OPT="-O1 -g"
ubsan:                                          ## ... under UndefinedBehaviorSanitizer
	+$(SANITIZED) BUILD=$(BUILD)/ubsan SAN="-fsanitize=undefined -fno-sanitize-recover=undefined" GEN_SAN="-fno-sanitize=undefined" OPT="-O1 -g"
tsan:                                           ## ... under ThreadSanitizer
	@# the simulated cluster has one thread and would take an hour here
	+$(SANITIZED) BUILD=$(BUILD)/tsan SAN="-fsanitize=thread" OPT="-O1 -g" UNIT_SRC="$(filter-out tests/unit/raft/test_cluster.c,$(UNIT_SRC))"

FORMATTED = $(wildcard fsm/*.[ch] fsm/*/*.[ch] raft/*.[ch] raft/*/*.[ch] src/*/*.[ch] src/*/*/*.[ch] tests/*/*.[ch] tests/unit/*/*.[ch])
format:                                         ## clang-format everything
	clang-format -i $(FORMATTED)
tidy: $(GEN_H)                                  ## clang-tidy (needs clang-tidy)
	clang-tidy --quiet $(filter %.c,$(FORMATTED)) -- $(CFLAGS_ALL) $(PKG_CFLAGS)
cover:                                          ## line coverage of unit and golden tests (gcov)
	$(MAKE) --no-print-directory unit golden BUILD=$(BUILD)/cover SAN="--coverage" OPT="-O0 -g"
	cd $(BUILD)/cover && find . -name '*.gcda' -not -path './gen/*' -not -path './tests/*' | xargs gcov -n 2>/dev/null | grep -A1 "^File '[^/]" || true
compdb:                                         ## compile_commands.json (needs bear)
	@command -v bear > /dev/null || { echo "error: bear is not installed; apt-get install bear" >&2; exit 1; }
	bear -- $(MAKE) --no-print-directory -B programs
docs: programs                                  ## what is generated from catalogues and objects
	tests/lint/docs.sh $(BUILD)
clean:                                          ## remove what was built
	rm -rf $(BUILD)
include deploy/install.mk
help:                                           ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile deploy/install.mk | sed -E 's/:[^#]*## */\t/' | expand -t 18

-include $(shell find $(BUILD) \( -path '$(BUILD)/roots' -o -path '$(BUILD)/deb' \) -prune -o -name '*.d' -not -path '$(BUILD)/*san/*' -print 2>/dev/null)
