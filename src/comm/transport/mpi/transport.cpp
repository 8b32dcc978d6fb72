// The MPI transport. Only this folder calls MPI. Linked, or a module of its own for one MPI (TACIT_MPI_MODULE): then it
// sees nothing of Tacit but headers and base/error.cpp.
#include "library.hpp"
#include "window.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <sstream>

#include <unistd.h>

namespace tacit::comm {
namespace {

using namespace mpi;

constexpr int notice_tag = 0;  // other tags are shifted up by one

class MpiNeighbourhood final : public Neighbourhood {
 public:
  MpiNeighbourhood(MPI_Comm comm, std::span<const int> sources, std::span<const int> destinations,
                   std::size_t element_bytes, std::shared_ptr<const bool> failed)
      : failed_(std::move(failed)) {
    check_mpi(MPI_Dist_graph_create_adjacent(comm, int(sources.size()), sources.data(), MPI_UNWEIGHTED,
                                             int(destinations.size()), destinations.data(), MPI_UNWEIGHTED,
                                             MPI_INFO_NULL, 0, &comm_),
              "MPI_Dist_graph_create_adjacent");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Type_contiguous(checked_cast<int>(element_bytes, "the bytes of an element"), MPI_BYTE, &element_),
              "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&element_), "MPI_Type_commit");
  }
  ~MpiNeighbourhood() override {
    if (forked()) return;
    const auto lock = process_lock()->take();
    if (finalized()) return;
    MPI_Type_free(&element_);
    if (!*failed_) MPI_Comm_free(&comm_);  // not freed after a failure: messages may be in flight
  }
  Ticket start(const void* out, std::span<const std::int32_t> out_offsets, void* in,
               std::span<const std::int32_t> in_offsets) override;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Datatype element_ = MPI_BYTE;
  std::shared_ptr<std::vector<int>> counts_[2];  // of the operations in flight
  int forth_ = 0;
  std::shared_ptr<const bool> failed_;
};

class MpiTransport final : public Transport {
 public:
  /// `node`: the ranks of this rank's node where they are known; else they come from MPI.
  explicit MpiTransport(MPI_Comm parent, std::vector<int> node = {}) : node_(std::move(node)) {
    const auto lock = process_lock()->take();
    check_mpi(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    count_communicator();
    if (node_.empty()) find_node();
  }
  ~MpiTransport() override {
    if (forked()) return;
    const auto lock = process_lock()->take();
    if (finalized()) return;
    // After a failure messages may be in flight without a receiver: MPICH would abort, and Open MPI would deliver them
    // to the next communicator with this one's number. So it is not freed.
    if (*failed_) return;
#ifdef MPICH_VERSION
    int left = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &left, MPI_STATUS_IGNORE);
    if (left) return;
#endif
    MPI_Comm_free(&comm_);
  }
  int rank() const override {
    return rank_;
  }
  int size() const override {
    return size_;
  }
  const char* kind() const override {
    return "mpi";
  }

  int largest_tag() const override {
    int* value = nullptr;
    int found = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &value, &found);
    return (found ? *value : 32767) - 1;
  }
  Ticket send(int to, int tag, const void* data, std::size_t bytes) override {
    MPI_Request request;
    const Extent e(bytes);
    check_mpi(MPI_Isend(data, e.count, e.type, to, tag + 1, comm_, &request), "MPI_Isend");
    return ticket(request);
  }
  Ticket receive(int from, int tag, void* data, std::size_t bytes) override {
    MPI_Request request;
    const Extent e(bytes);
    check_mpi(MPI_Irecv(data, e.count, e.type, from, tag + 1, comm_, &request), "MPI_Irecv");
    Ticket t = ticket(request);
    t.numbers[0] = receives;
    t.numbers[1] = from;
    t.words[1] = bytes;
    return t;
  }
  bool test(Ticket& t) override {
    if (!t.active) return true;
    MPI_Request request = request_of(t);
    int flag = 0;
    MPI_Status status;
    const int code = MPI_Test(&request, &flag, &status);
    std::memcpy(t.words, &request, sizeof request);
    if (flag || code != MPI_SUCCESS) t.active = false;
    check_mpi(code, "MPI_Test");
    if (flag && t.numbers[0] == receives) {
      MPI_Count bytes = 0;
      MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
      if (std::size_t(bytes) != t.words[1])
        throw Error(ErrorKind::environment, message("a message of ", bytes, " bytes from rank ", t.numbers[1],
                                                    " where ", t.words[1], " were expected"));
    }
    return flag;
  }
  void cancel(Ticket& t, std::shared_ptr<void> keep) override {
    if (!t.active) return;
    MPI_Request request = request_of(t);
    t.active = false;
    int flag = 0;
    if (MPI_Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag) return;
    if (t.numbers[0] == receives) {
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      return;
    }
    // A send or a collective cannot be cancelled: its buffer is kept until MPI completes it.
    kept().push_back(std::move(keep));
    if (t.numbers[0] == sends) MPI_Request_free(&request);
  }
  Prepared prepare(bool out, int peer, int tag, void* data, std::size_t bytes) override {
    MPI_Request request;
    const Extent e(bytes);
    check_mpi(out ? MPI_Send_init(data, e.count, e.type, peer, tag + 1, comm_, &request)
                  : MPI_Recv_init(data, e.count, e.type, peer, tag + 1, comm_, &request),
              out ? "MPI_Send_init" : "MPI_Recv_init");
    Prepared p{out, peer, tag, data, bytes, {}};
    static_assert(sizeof request <= sizeof p.words);
    std::memcpy(p.words, &request, sizeof request);
    return p;
  }
  Ticket start(Prepared& p) override {
    MPI_Request request;
    std::memcpy(&request, p.words, sizeof request);
    check_mpi(MPI_Start(&request), "MPI_Start");
    Ticket t = ticket(request);
    t.numbers[0] = p.out ? prepared_sends : receives;
    t.numbers[1] = p.peer;
    t.words[1] = p.bytes;
    return t;
  }
  void release(Prepared& p) noexcept override {
    MPI_Request request;
    std::memcpy(&request, p.words, sizeof request);
    if (!finalized() && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    std::memcpy(p.words, &request, sizeof request);
  }
  std::vector<int> node() override {
    return node_;
  }
  std::shared_ptr<Window> make_window(std::size_t bytes, const AllLeast& all_least) override;
  std::shared_ptr<Neighbourhood> make_neighbourhood(std::span<const int> sources, std::span<const int> destinations,
                                                    std::size_t element_bytes) override;
  std::optional<Arrival> probe(int tag) override {
    int flag = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag + 1, comm_, &flag, &status), "MPI_Iprobe");
    if (!flag) return {};
    MPI_Count bytes = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    return Arrival{status.MPI_SOURCE, std::size_t(bytes)};
  }
  bool has_native_sum() const override {
    return true;
  }
  Ticket start_native_sum(void* values, std::size_t n, Number number, Operation operation) override {
    const MPI_Datatype type = number == Number::float32   ? MPI_FLOAT
                              : number == Number::float64 ? MPI_DOUBLE
                                                          : MPI_INT64_T;
    const MPI_Op op = operation == Operation::sum ? MPI_SUM : operation == Operation::min ? MPI_MIN : MPI_MAX;
    MPI_Request request;
    check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, values, checked_cast<int>(n, "the length of a sum"), type, op, comm_, &request),
        "MPI_Iallreduce");
    Ticket t = ticket(request);
    t.numbers[0] = reduces;
    return t;
  }
  std::shared_ptr<TransportLock> lock() override {
    return process_lock();
  }
  void allow_engine() override {
    int provided = MPI_THREAD_SINGLE;
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_SERIALIZED)
      throw Error(
          ErrorKind::environment,
          message("engine thread needs an MPI that several threads may call; this process initialised it with ",
                  provided == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_SINGLE",
                  "; initialise it with MPI_THREAD_SERIALIZED (mpi4py: mpi4py.rc.thread_level = \"serialized\") "
                  "or use engine polling"));
  }
  void send_notice(const Notice& notice) override {
    *failed_ = true;
    const std::int64_t numbers[6] = {notice.rank,  notice.epoch,  notice.position, std::int64_t(notice.kind),
                                     notice.depth, notice.settled};
    auto buffer = std::make_shared<std::string>(reinterpret_cast<const char*>(numbers), sizeof numbers);
    *buffer += notice.text;
    kept().push_back(buffer);
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      MPI_Request request;
      if (MPI_Isend(buffer->data(), int(buffer->size()), MPI_BYTE, r, notice_tag, comm_, &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
    }
  }
  std::optional<Notice> poll_notice() override {
    int flag = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, notice_tag, comm_, &flag, &status) != MPI_SUCCESS || !flag) return {};
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    *failed_ = true;
    std::string buffer(std::size_t(bytes), '\0');
    MPI_Recv(buffer.data(), bytes, MPI_BYTE, status.MPI_SOURCE, notice_tag, comm_, MPI_STATUS_IGNORE);
    std::int64_t numbers[6];
    std::memcpy(numbers, buffer.data(), sizeof numbers);
    return Notice{int(numbers[0]), int(numbers[1]), numbers[2], ErrorKind(numbers[3]), buffer.substr(sizeof numbers),
                  int(numbers[4]), int(numbers[5])};
  }
  std::shared_ptr<Transport> duplicate() override {
    return std::make_shared<MpiTransport>(comm_, node_);
  }

 private:
  friend class MpiNeighbourhood;
  void find_node() {
    MPI_Comm shared = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &shared), "MPI_Comm_split_type");
    int size = 1;
    MPI_Comm_size(shared, &size);
    node_.assign(std::size_t(size), rank_);
    const int code = MPI_Allgather(&rank_, 1, MPI_INT, node_.data(), 1, MPI_INT, shared);
    MPI_Comm_free(&shared);
    check_mpi(code, "MPI_Allgather");
  }
  enum : int { sends, receives, reduces, prepared_sends };  // Ticket::numbers[0]
  // MPI counts are int: longer messages travel as one element of a larger type.
  struct Extent {
    explicit Extent(std::size_t bytes) {
      if (bytes <= INT_MAX) {
        count = int(bytes);
        return;
      }
      constexpr std::size_t block = std::size_t(1) << 30;
      MPI_Datatype large;
      MPI_Type_contiguous(int(block), MPI_BYTE, &large);
      const int lengths[2] = {checked_cast<int>(bytes / block, "a message's GiB"), int(bytes % block)};
      const MPI_Aint places[2] = {0, MPI_Aint(bytes / block * block)};
      const MPI_Datatype types[2] = {large, MPI_BYTE};
      MPI_Type_create_struct(2, lengths, places, types, &type);
      MPI_Type_commit(&type);
      MPI_Type_free(&large);
      count = 1;
      owned = true;
    }
    ~Extent() {
      if (owned) MPI_Type_free(&type);
    }
    Extent(const Extent&) = delete;
    int count = 0;
    MPI_Datatype type = MPI_BYTE;
    bool owned = false;
  };
  static Ticket ticket(MPI_Request request) {
    static_assert(sizeof(MPI_Request) <= sizeof(Ticket::words));
    Ticket t;
    std::memcpy(t.words, &request, sizeof request);
    t.active = true;
    return t;
  }
  static MPI_Request request_of(const Ticket& t) {
    MPI_Request request;
    std::memcpy(&request, t.words, sizeof request);
    return request;
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  // Shared by duplicates: whether messages may have been abandoned.
  std::shared_ptr<bool> failed_ = std::make_shared<bool>(false);
  std::vector<int> node_;
  std::vector<std::shared_ptr<MpiWindow>> windows_;
};

// MPI frees windows collectively, but ranks drop exchanges in any order. So windows stay with the transport, and one
// that all ranks have dropped is reused when the next is made.
std::shared_ptr<Window> MpiTransport::make_window(std::size_t bytes, const AllLeast& all_least) {
  // Everything that may fail on a single rank precedes the agreement before MPI_Win_allocate.
  windows_.reserve(windows_.size() + 1);
  {
    const auto lock = process_lock()->take();
    Windows::expect_one();
  }
  auto fresh = std::make_shared<MpiWindow>();
  std::vector<std::int64_t> fits(windows_.size() + 1);  // windows held by Windows only
  for (std::size_t i = 0; i < windows_.size(); ++i)
    fits[i] = windows_[i].use_count() <= 2 && windows_[i]->usable() && windows_[i]->bytes() >= bytes;
  all_least(fits);  // the last element is for ranks that have made none yet
  const auto found = std::find(fits.begin(), fits.end(), 1);
  std::shared_ptr<MpiWindow> window;
  {
    const auto lock = process_lock()->take();
    if (found != fits.end()) {
      window = windows_[std::size_t(found - fits.begin())];
    } else {
      window = windows_.emplace_back(std::move(fresh));
      window->make(comm_, bytes);
      Windows::keep(window);
    }
    window->clear();
  }
  std::int64_t unified = window->unified();
  all_least({&unified, 1});  // no rank writes before all are cleared
  return unified ? window : nullptr;
}

std::shared_ptr<Neighbourhood> MpiTransport::make_neighbourhood(std::span<const int> sources,
                                                                std::span<const int> destinations,
                                                                std::size_t element_bytes) {
  return std::make_shared<MpiNeighbourhood>(comm_, sources, destinations, element_bytes, failed_);
}

Ticket MpiNeighbourhood::start(const void* out, std::span<const std::int32_t> out_offsets, void* in,
                               std::span<const std::int32_t> in_offsets) {
  // MPI may read the counts until the operation completes.
  auto counts = std::make_shared<std::vector<int>>();
  const auto differences = [&](std::span<const std::int32_t> offsets) {
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) counts->push_back(offsets[i + 1] - offsets[i]);
    return offsets.size() - 1;
  };
  const std::size_t sent = differences(out_offsets);
  differences(in_offsets);
  static const int nothing = 0;
  MPI_Request request;
  check_mpi(MPI_Ineighbor_alltoallv(out, sent ? counts->data() : &nothing, out_offsets.data(), element_, in,
                                    counts->size() > sent ? counts->data() + sent : &nothing, in_offsets.data(),
                                    element_, comm_, &request),
            "MPI_Ineighbor_alltoallv");
  counts_[forth_ = 1 - forth_] = std::move(counts);
  Ticket t = MpiTransport::ticket(request);
  t.numbers[0] = MpiTransport::reduces;
  return t;
}

bool has_begun() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized;
}

std::string text() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  return version;
}

// All processes; see Library::world.
std::shared_ptr<Transport> world(void (*before_end)() noexcept) {
  process = getpid();  // the caller has seen that it is no fork
  if (!has_begun()) {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    static void (*depart)() noexcept = before_end;
    std::atexit([] {
      if (finalized()) return;  // or in the child of a fork
      depart();
      MPI_Finalize();
    });
  }
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1 && launched_ranks() > 1)
    throw Error(ErrorKind::environment, message("the launcher started ", launched_ranks(),
                                                " ranks, but each sees only itself: mpiexec belongs to another MPI "
                                                "than the one that Tacit uses, ",
                                                short_name(text()), "; start with that MPI's mpiexec"));
  return std::make_shared<MpiTransport>(MPI_COMM_WORLD);
}

}  // namespace

static const Library table = {
    .initialized = has_begun,
    .finalized = finalized,
    .world = world,
    .from_fortran = [](int handle) -> std::shared_ptr<Transport> {
      return std::make_shared<MpiTransport>(MPI_Comm_f2c(MPI_Fint(handle)));
    },
    .processes =
        [] {
          int size = 1;
          MPI_Comm_size(MPI_COMM_WORLD, &size);
          return size;
        },
    .text = text,
};

}  // namespace tacit::comm

#ifdef TACIT_MPI_MODULE
extern "C" __attribute__((visibility("default"))) const tacit::comm::mpi::Library* tacit_mpi_library() {
  return &tacit::comm::table;
}
#else
namespace tacit::comm::mpi {
const Library* library() noexcept {
  return &table;
}
void load(const std::string& module) {
  throw Error(ErrorKind::usage, message("the MPI module ", module, ": this build of Tacit has its MPI linked, ",
                                        short_name(table.text()), "; build with TACIT_MPI=OFF to choose at run time"));
}
}  // namespace tacit::comm::mpi
#endif
