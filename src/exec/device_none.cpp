// A build without CUDA: device functions throw Error(environment).
#include <tacit/base/error.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/memory.hpp>

namespace tacit::exec {
namespace {
[[noreturn]] void absent() {
  throw Error(ErrorKind::environment,
              "this build of Tacit has no CUDA; configure with -DTACIT_CUDA=ON for --device cuda");
}
}  // namespace

bool device_available() noexcept {
  return false;
}
std::string device_name() {
  absent();
}
void* device_allocate(std::size_t) {
  absent();
}
void device_free(void*) noexcept {}
void copy_to_device(void*, const void*, std::size_t) {
  absent();
}
void copy_to_host(void*, const void*, std::size_t) {
  absent();
}
void copy_on_device(void*, const void*, std::size_t) {
  absent();
}
void clear_on_device(void*, std::size_t) {
  absent();
}
int gpu_count() noexcept {
  return 0;
}
std::string gpu_name(int) {
  absent();
}
void return_to_gpu(int) noexcept {}
void keep_device_memory(bool) {}
void release_device_memory() noexcept {}
UseGpu::UseGpu(int) {
  absent();
}
UseGpu::~UseGpu() = default;
int gpu_of_address(const void*) {
  absent();
}
void wait_for_stream(std::uintptr_t) {
  absent();
}
void wait_for_gpu() {
  absent();
}
void wait_for_all_of_gpu(int) noexcept {}

}  // namespace tacit::exec
