# The two commands of this project. Each does all of its own set-up.
.PHONY: run test build release pgo dist wheel setup

# Where rustup puts cargo; a shell that was open before does not look there.
export PATH := $(PATH):$(HOME)/.cargo/bin

run: build        ## build and start sluice in this folder (a Caddyfile here is picked up)
	@echo "starting target/quick/sluice; it was built quickly: \`make release\` builds the fast program, target/dist/sluice"
	@./target/quick/sluice run

test: setup       ## everything a change has to pass
	@test -d target/debug || echo "running all checks: about 15 minutes on 2 cores the first time, when everything is built"
	cargo xtask check

build: setup
	@test -e target/quick/sluice || echo "building target/quick/sluice: about 5 minutes on 2 cores, the first time only"
	cargo build --profile quick --package sluice

release: setup    ## a fast program: target/dist/sluice, with its debug symbols beside it
	@echo "building a fast program: about 20 minutes on 2 cores; \`make pgo\` makes a faster one in twice that time"
	cargo build --release --package sluice
	@$(MAKE) --no-print-directory dist PROGRAM=target/release/sluice

pgo: setup        ## the fastest program: the same, optimised for what requests were seen to use
	@echo "building the fastest program: about 40 minutes on 2 cores"
	cargo xtask pgo
	@$(MAKE) --no-print-directory dist PROGRAM=target/pgo/sluice

dist:
	mkdir -p target/dist
	objcopy --only-keep-debug $(PROGRAM) target/dist/sluice.debug
	objcopy --strip-debug $(PROGRAM) target/dist/sluice
	cd target/dist && objcopy --add-gnu-debuglink=sluice.debug sluice

wheel: setup      ## for pip: target/wheels/sluice-*.whl, and sluice_worker-*.whl for its extra `speed`
	@echo "building the program of \`make release\`: about 20 minutes on 2 cores"
	cargo xtask wheel

setup:
	@./setup
