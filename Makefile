# make run ARGS="solve A.mtx", make test ARGS=--quick
.PHONY: run test install clean
run:
	@./run $(ARGS)
test:
	@./test $(ARGS)
PREFIX ?= /usr/local
install:
	cmake --preset release && cmake --build build/release --target tacit && cmake --install build/release --prefix "$(PREFIX)"
clean:
	rm -rf build
