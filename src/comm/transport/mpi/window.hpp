// Windows of MPI's one-sided communication, and when they are freed.
#pragma once

#include "calls.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace tacit::comm::mpi {

class MpiWindow final : public Window {
 public:
  /// Collective and cannot be cancelled; only MPI's own calls may fail here.
  void make(MPI_Comm comm, std::size_t bytes) {
    check_mpi(MPI_Win_allocate(MPI_Aint(bytes), 1, MPI_INFO_NULL, comm, &base_, &window_), "MPI_Win_allocate");
    bytes_ = bytes;
    comm_ = comm;
    MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
    usable_ = true;
  }
  /// False after an error of make().
  bool usable() const { return usable_; }
  /// Whether plain reads see the puts of other ranks (unified memory model).
  bool unified() const {
    int* model = nullptr;
    int found = 0;
    MPI_Win_get_attr(window_, MPI_WIN_MODEL, &model, &found);
    return found && *model == MPI_WIN_UNIFIED;
  }
  std::size_t bytes() const { return bytes_; }
  void clear() {
    std::memset(base_, 0, bytes_);
    MPI_Win_sync(window_);
  }
  /// Collective. Nothing may be read or written afterwards.
  void free() noexcept {
    usable_ = false;
    if (window_ == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  std::byte* data() override { return static_cast<std::byte*>(base_); }
  void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t flag,
             std::uint64_t value) override {
    if (window_ == MPI_WIN_NULL) return;
    constexpr std::size_t most = std::size_t(1) << 30;
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t done = 0; done < bytes; done += most) {
      const int n = int(std::min(most, bytes - done));
      check_mpi(MPI_Put(from + done, n, MPI_BYTE, to, MPI_Aint(at + done), n, MPI_BYTE, window_), "MPI_Put");
    }
    if (bytes) check_mpi(MPI_Win_flush(to, window_), "MPI_Win_flush");
    check_mpi(MPI_Accumulate(&value, 1, MPI_UINT64_T, to, MPI_Aint(flag), 1, MPI_UINT64_T, MPI_REPLACE, window_),
              "MPI_Accumulate");
    check_mpi(MPI_Win_flush(to, window_), "MPI_Win_flush");
  }
  std::uint64_t read(std::size_t flag) override {
    if (window_ == MPI_WIN_NULL) return 0;
    // The flag becomes visible after MPI has progressed and the public and private copies are synchronised.
    if (++looked_ % 4 == 0) {
      int arrived = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &arrived, MPI_STATUS_IGNORE);
    }
    MPI_Win_sync(window_);
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(data() + flag))
        .load(std::memory_order_acquire);
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned looked_ = 0;
  bool usable_ = false;
};

// All windows of the process. MPI frees windows collectively, but the objects that use them are destroyed in any order.
// So they are freed at the beginning of MPI_Finalize, which deletes the attributes of MPI_COMM_SELF, in the order in
// which they were made, which is the same on all ranks.
class Windows {
 public:
  /// Allocates what make() needs, since this may fail.
  static void expect_one() {
    auto& w = all();
    if (w.key_ == MPI_KEYVAL_INVALID) {
      const auto free_all = [](MPI_Comm, int, void*, void*) {
        for (const auto& window : all().windows_) window->free();
        all().windows_.clear();
        return MPI_SUCCESS;
      };
      check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_all, &w.key_, nullptr), "MPI_Comm_create_keyval");
      check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, w.key_, nullptr), "MPI_Comm_set_attr");
    }
    w.windows_.reserve(w.windows_.size() + 1);
  }
  static void keep(std::shared_ptr<MpiWindow> window) noexcept { all().windows_.push_back(std::move(window)); }

 private:
  static Windows& all() {
    static Windows& one = *new Windows;
    return one;
  }
  int key_ = MPI_KEYVAL_INVALID;
  std::vector<std::shared_ptr<MpiWindow>> windows_;
};

}  // namespace tacit::comm::mpi
