# The two commands of this project. Each does all of its own set-up.
.PHONY: run test build setup

# Where rustup puts cargo; a shell that was open before does not look there.
export PATH := $(PATH):$(HOME)/.cargo/bin

run: build        ## build and start sluice in this folder (a Caddyfile here is picked up)
	./target/release/sluice run

test: setup       ## everything a change has to pass
	cargo xtask check

build: setup
	cargo build --release --package sluice

setup:
	@./setup
