// Communicators and operators of the C interface.
#include "handles.hpp"

#include <tacit/op/function.hpp>
#include <tacit/precond/make.hpp>

#include <utility>
#include <vector>

namespace tacit::c {
namespace {

using layout::Partition, layout::Space, layout::Vector;

/// The space of vectors of which this rank has `count` elements. Collective.
Space space_of(const comm::Communicator& comm, std::int32_t count, const char* what) {
  require(count >= 0, "a matrix of ", count, " ", what, " on rank ", comm.rank());
  return Space::distributed(comm, Partition::of_counts(comm.all_gather(Global(count))));
}

template <Scalar T>
OperatorOf<T>& as(tacit_operator& A) {
  return static_cast<OperatorOf<T>&>(A);
}
template <Scalar T>
const OperatorOf<T>& as(const tacit_operator& A) {
  return static_cast<const OperatorOf<T>&>(A);
}

template <Scalar T>
tacit_operator* new_matrix(const comm::Communicator& comm, std::int32_t rows, std::optional<std::int32_t> columns,
                           const std::int64_t* start, const std::int64_t* column, const void* value) {
  auto matrix = together(comm, [&] {
    require_alike(comm, message(columns ? "a rectangular" : "a", " matrix of scalar ", int(scalar_of<T>)));
    const Space space = space_of(comm, rows, "rows");
    const Space domain = columns ? space_of(comm, *columns, "columns") : space;
    require(start || rows == 0, "start is null, on a rank of ", rows, " rows");
    const Global none = 0;
    const std::span<const Global> starts(rows > 0 ? start : &none, std::size_t(rows) + 1);
    require(starts.front() == 0, "start[0] is ", starts.front(), "; it has to be 0");
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
      require(starts[i] <= starts[i + 1], "start falls from ", starts[i], " to ", starts[i + 1], " after row ", i);
    const auto entries = std::size_t(starts.back());
    require((column && value) || entries == 0, "column or value is null, with ", entries, " entries");
    const op::RowsView<T, std::int64_t> view{starts, {column, entries}, {static_cast<const T*>(value), entries}};
    return std::make_shared<op::Csr<T, Host>>(space, domain, view);
  });
  auto made = std::make_unique<OperatorOf<T>>(matrix);
  made->matrix = std::move(matrix);
  return made.release();
}

template <Scalar T>
tacit_operator* new_function(const comm::Communicator& comm, std::int32_t rows, tacit_apply apply, void* context,
                             const void* diagonal) {
  return together(comm, [&] {
    require_alike(comm, message("a function of scalar ", int(scalar_of<T>)));
    const Space space = space_of(comm, rows, "rows");
    require(apply != nullptr, "apply is null");
    const auto one = [apply, context](const T* x, T* y) {
      if (const int code = apply(context, x, y))
        throw Error(ErrorKind::input, message("the product of the caller returned ", code));
    };
    const auto call = [one, rows](const T* x, T* y, int columns) {
      if (columns == 1) return one(x, y);
      const auto n = std::size_t(rows), k = std::size_t(columns);
      std::vector<T> from(n), to(n);
      for (std::size_t c = 0; c < k; ++c) {
        for (std::size_t i = 0; i < n; ++i) from[i] = x[i * k + c];
        one(from.data(), to.data());
        for (std::size_t i = 0; i < n; ++i) y[i * k + c] = to[i];
      }
    };
    std::vector<T> d;
    if (diagonal) d.assign(static_cast<const T*>(diagonal), static_cast<const T*>(diagonal) + rows);
    return new OperatorOf<T>(std::make_shared<op::Function<T, Host>>(
        space, space, call, typename op::Function<T>::Callable(), std::move(d)));
  });
}

template <Scalar T>
std::unique_ptr<tacit_operator> new_precond(const OperatorOf<T>& A, const char* name, const char* options) {
  const auto& comm = A.space().comm();
  return together(comm, [&]() -> std::unique_ptr<tacit_operator> {
    require_square(A, "a preconditioner by name");
    require(A.is_matrix(), "a preconditioner by name needs a stored matrix; this operator is a ", A.of->name());
    precond::Options chosen;
    const std::string known = to_string(value_of<precond::Kind>(&needed(name, "name")));
    each_option(options, [&](std::string_view option, std::string_view value) {
      set_from_text(precond::options(), chosen, option, value, known.c_str());
    });
    require_alike(comm, known + text_of_options(precond::options(), chosen));
    std::shared_ptr<const op::Operator<T, Host>> made = precond::make<T, Host>(name, *A.matrix, chosen);
    if (!made) return nullptr;
    auto P = std::make_unique<OperatorOf<T>>(std::move(made));
    P->matrix = A.matrix;
    return P;
  });
}

template <Scalar T>
void set_null_space(OperatorOf<T>& A, int count, const void* right) {
  const Space& space = A.space();
  together(space.comm(), [&] {
    require_square(A, "a null space");
    require(count >= 0 && (right || count <= 1), "a null space of ", count, " vectors",
            right ? "" : " without them; null stands for the constant vector");
    if (count == 0) return A.null_space.reset();
    if (!right) {
      A.null_space = std::make_shared<krylov::NullSpace<T>>(krylov::NullSpace<T>::constant(space));
      return;
    }
    const auto n = std::size_t(space.local_size());
    std::vector<Vector<T>> vectors;
    for (int k = 0; k < count; ++k)
      vectors.emplace_back(space).assign({static_cast<const T*>(right) + std::size_t(k) * n, n});
    A.null_space = std::make_shared<krylov::NullSpace<T>>(std::move(vectors));
  });
}

}  // namespace

void require_square(const tacit_operator& A, const char* what) {
  const auto &range = A.space(), &domain = A.domain();
  require(range == domain, what, " needs a square matrix; this one has ", range.size(), " rows and ", domain.size(),
          " columns", range.size() == domain.size() ? ", spread in another way over the ranks" : "",
          ": tacit_least_squares() takes it");
}

std::unique_ptr<tacit_operator> make_precond(const tacit_operator& A, const char* name, const char* options) {
  return with_scalar(A.scalar, [&]<class T>() { return new_precond<T>(as<T>(A), name, options); });
}

}  // namespace tacit::c

using namespace tacit::c;
using tacit::Host;
namespace comm = tacit::comm;

extern "C" {

tacit_status tacit_comm_self(tacit_comm** made) {
  return guarded([&] { needed(made, "comm") = new tacit_comm(comm::Communicator::self()); });
}
tacit_status tacit_comm_world(tacit_comm** made) {
  return guarded([&] {
    needed(made, "comm") =
        new tacit_comm(comm::mpi_built() && comm::mpi_launched() ? comm::mpi_world() : comm::Communicator::self());
  });
}
tacit_status tacit_comm_from_fortran(int handle, tacit_comm** made) {
  return guarded([&] { needed(made, "comm") = new tacit_comm(comm::mpi_from_fortran(handle)); });
}
int tacit_comm_rank(const tacit_comm* c) {
  return c && is_alive(c, tacit_comm::type) ? c->of.rank() : -1;
}
int tacit_comm_size(const tacit_comm* c) {
  return c && is_alive(c, tacit_comm::type) ? c->of.size() : -1;
}
void tacit_comm_free(tacit_comm* c) {
  guarded([&] { release(c, "comm"); });
}

tacit_status tacit_matrix(const tacit_comm* c, tacit_scalar scalar, int32_t rows, const int64_t* start,
                          const int64_t* column, const void* value, tacit_operator** A) {
  return guarded([&] {
    const auto& on = needed(c, "comm").of;
    needed(A, "A") = with_scalar(scalar, [&]<class T>() { return new_matrix<T>(on, rows, {}, start, column, value); });
  });
}
tacit_status tacit_rectangular_matrix(const tacit_comm* c, tacit_scalar scalar, int32_t rows, int32_t columns,
                                      const int64_t* start, const int64_t* column, const void* value,
                                      tacit_operator** A) {
  return guarded([&] {
    const auto& on = needed(c, "comm").of;
    needed(A, "A") =
        with_scalar(scalar, [&]<class T>() { return new_matrix<T>(on, rows, columns, start, column, value); });
  });
}
tacit_status tacit_matrix_update(tacit_operator* A, int64_t count, const void* value) {
  return guarded([&] {
    with_scalar(needed(A, "A").scalar, [&]<class T>() {
      auto& own = as<T>(*A);
      together(own.space().comm(), [&] {
        tacit::require(own.is_matrix(), "only a stored matrix has values; this operator is a ", own.of->name());
        tacit::require(count >= 0 && (value || count == 0), "value is null, or count (", count, ") is below 0");
        own.matrix->update_values({static_cast<const T*>(value), std::size_t(count)});
        for (auto& [method, automatic] : own.automatic) automatic->refresh();
      });
    });
  });
}
tacit_status tacit_function(const tacit_comm* c, tacit_scalar scalar, int32_t rows, tacit_apply apply, void* context,
                            const void* diagonal, tacit_operator** A) {
  return guarded([&] {
    const auto& on = needed(c, "comm").of;
    needed(A, "A") =
        with_scalar(scalar, [&]<class T>() { return new_function<T>(on, rows, apply, context, diagonal); });
  });
}
tacit_status tacit_precond(const tacit_operator* A, const char* name, const char* options, tacit_operator** P) {
  return guarded([&] {
    auto& made = needed(P, "P");
    made = make_precond(needed(A, "A"), name, options).release();
  });
}
tacit_status tacit_operator_apply(const tacit_operator* A, const void* x, void* y) {
  return guarded([&] {
    with_scalar(needed(A, "A").scalar, [&]<class T>() {
      const auto& own = as<T>(*A);
      together(own.space().comm(), [&] {
        tacit::layout::Vector<T> from(own.domain()), to(own.space());
        from.assign(elements<T>(own.domain(), x, "x"));
        elements<T>(own.space(), y, "y");
        own.of->apply(from, to);
        const auto result = to.to_host();
        std::copy(result.begin(), result.end(), static_cast<T*>(y));
      });
    });
  });
}
int32_t tacit_operator_local_rows(const tacit_operator* A) {
  return A && is_alive(A, tacit_operator::type) ? A->space().local_size() : -1;
}
int64_t tacit_operator_rows(const tacit_operator* A) {
  return A && is_alive(A, tacit_operator::type) ? A->space().size() : -1;
}
tacit_status tacit_operator_null_space(tacit_operator* A, int count, const void* right) {
  return guarded(
      [&] { with_scalar(needed(A, "A").scalar, [&]<class T>() { set_null_space(as<T>(*A), count, right); }); });
}
void tacit_operator_free(tacit_operator* A) {
  guarded([&] { release(A, "A"); });
}

}  // extern "C"
