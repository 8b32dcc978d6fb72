#include "nested.hpp"

#include "saved.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <utility>

namespace tacit::op::detail {

template <Scalar T>
void NestedField<T>::complete(std::vector<FarRow> far, std::vector<Run> runs, Sharing sharing) {
  far_ = std::move(far), runs_ = std::move(runs), sharing_ = std::move(sharing);
  divide();
  made_ = checksum();
}

template <Scalar T>
void NestedField<T>::divide() {
  require(far_.size() == rows_->nodes().size(), "far blocks of ", far_.size(), " clusters, and ", rows_->nodes().size(),
          " with a basis");
  cost_.assign(1, 0);
  for (std::size_t i = 0; i < far_.size(); ++i)
    cost_.push_back(cost_.back() + std::size_t(far_[i].length) * std::size_t(rows_->nodes()[i].rank) + 64);
}

template <Scalar T>
void NestedField<T>::connect(const comm::Communicator& comm) {
  exchanges_.clear();
  if (comm.size() == 1) return;
  pattern_ = std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, sharing_.offsets, sharing_.ghosts));
  // The communicator of the exchanges.
  exchanges_[1] = std::make_unique<comm::Exchange>(comm, pattern_, sizeof(T));
}

template <Scalar T>
comm::Exchange& NestedField<T>::exchange(int k) const {
  auto& e = exchanges_[k];
  if (!e) e = std::make_unique<comm::Exchange>(exchanges_[1]->comm(), pattern_, sizeof(T) * std::size_t(k));
  return *e;
}

template <Scalar T>
void NestedField<T>::reserve(int k) const {
  const std::size_t columns = sharing_.coefficients * std::size_t(k) * parts,
                    planes = std::size_t(std::min(4, k * parts)), rows = rows_->coefficients() * planes;
  if (column_values_.size() < columns) column_values_ = exec::Array<R>(columns);
  if (row_values_.size() < rows) row_values_ = exec::Array<R>(rows);
  ldz_ = (std::size_t(std::max(rows_->count(), columns_->count())) + 31) / 16 * 16;
  if (z_.size() < ldz_ * planes) z_ = exec::Array<R>(ldz_ * planes);
}

template <Scalar T>
template <class F>
void NestedField<T>::by_columns(int k, F&& f) {
  for (int c = 0; c < k;) {
    if (k - c >= 4 / parts) f(std::integral_constant<int, 4>{}, c), c += 4 / parts;
    else if (k - c >= 2 / parts) f(std::integral_constant<int, 2>{}, c), c += 2 / parts;
    else if constexpr (!is_complex<T>) f(std::integral_constant<int, 1>{}, c), ++c;
  }
}

template <Scalar T>
template <int K, class F>
void NestedField<T>::set_planes(Local count, F&& value) const {
  exec::parallel_for(std::size_t(count), true, [&, z = z_.data(), ld = std::ptrdiff_t(ldz_)](std::size_t i) {
    for (int c = 0; c < K / parts; ++c) {
      const T v = value(i, c);
      for (int p = 0; p < parts; ++p) z[(c * parts + p) * ld + std::ptrdiff_t(i)] = part(v, p);
    }
  });
}

template <Scalar T>
void NestedField<T>::project(const T* x, std::span<const Global> order, int k, const comm::Communicator& comm) const {
  reserve(k);
  const auto own = order.subspan(std::size_t(columns_->first()), std::size_t(columns_->count()));
  by_columns(k, [&](auto planes, int column) {
    constexpr int K = planes;
    set_planes<K>(columns_->count(), [&](std::size_t i, int c) {
      return x[std::size_t(own[i]) * std::size_t(k) + std::size_t(column + c)];
    });
    columns_->up(K, z_.data(), std::ptrdiff_t(ldz_),
                 column_values_.data() + std::ptrdiff_t(column) * parts * column_ld(), column_ld(), comm);
  });
}

template <Scalar T>
int NestedField<T>::post(int k, bool forward) const {
  if (!pattern_) return -1;
  auto& e = exchange(k);
  const int slot = e.open(forward);
  T* const out = reinterpret_cast<T*>(e.outgoing(slot));
  const R* const values = column_values_.data();
  const auto pack = [&](std::size_t at, std::size_t from) {
    for (int c = 0; c < k; ++c) {
      const R* const v = values + std::ptrdiff_t(c) * parts * column_ld() + std::ptrdiff_t(from);
      if constexpr (is_complex<T>) out[at * std::size_t(k) + std::size_t(c)] = T(v[0], v[column_ld()]);
      else out[at * std::size_t(k) + std::size_t(c)] = v[0];
    }
  };
  if (forward) {
    for (std::size_t i = 0; i < pattern_->send_index.size(); ++i) pack(i, std::size_t(pattern_->send_index[i]));
  } else {
    for (const SharedCluster& s : sharing_.clusters)
      for (std::uint32_t q = s.first_part; q < s.last_part; ++q)
        if (const auto ghost = sharing_.parts[q].ghost; ghost >= 0)
          for (std::uint32_t j = 0; j < s.rank; ++j) pack(std::size_t(ghost) + j, s.at + j);
  }
  e.post(slot);
  return slot;
}

template <Scalar T>
void NestedField<T>::wait(int slot, int k, bool forward) const {
  if (slot < 0) return;
  auto& e = exchange(k);
  e.wait(slot);
  const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
  for (int c = 0; c < k; ++c)
    for (int p = 0; p < parts; ++p) {
      R* const values = column_values_.data() + (std::ptrdiff_t(c) * parts + p) * column_ld();
      const auto received = [&](std::size_t at) { return part(in[at * std::size_t(k) + std::size_t(c)], p); };
      for (const SharedCluster& s : sharing_.clusters) {
        if (forward) std::fill_n(values + s.at, s.rank, R(0));
        for (std::uint32_t q = s.first_part; q < s.last_part; ++q) {
          const SharedPart& from = sharing_.parts[q];
          for (std::uint32_t j = 0; j < s.rank; ++j) {
            if (forward)
              values[s.at + j] += from.own >= 0 ? values[from.own + j] : received(std::size_t(from.ghost) + j);
            else if (from.own >= 0) values[from.own + j] += values[s.at + j];
          }
        }
      }
      if (!forward)
        for (std::size_t i = 0; i < pattern_->send_index.size(); ++i)
          values[std::size_t(pattern_->send_index[i])] += received(i);
    }
  e.close(slot);
}

template <Scalar T>
template <int K>
void NestedField<T>::couple(std::size_t node, int plane, std::vector<R>& buffer) const {
  const FarRow& far = far_[node];
  const BasisNode& to = rows_->nodes()[node];
  R* const y = row_values_.data() + to.at;
  if (far.length == 0) {
    for (int k = 0; k < K; ++k) std::fill_n(y + k * row_ld(), to.rank, R(0));
    return;
  }
  const std::size_t length = far.length;
  buffer.resize(length * K + std::size_t(to.rank) * parts * K);
  R* const gathered = buffer.data();
  R* const sums = gathered + length * K;
  const R* const x = column_values_.data() + std::ptrdiff_t(plane) * column_ld();
  for (int k = 0; k < K; ++k) {
    R* out = gathered + std::size_t(k) * length;
    for (std::uint32_t r = far.first_run; r < far.last_run; ++r) {
      const Run& run = runs_[r];
      const R* const from = x + k * column_ld() + run.offset;
      const R scale = R(run.scale);
      for (std::uint32_t j = 0; j < run.count; ++j) *out++ = scale * from[j];
    }
    std::fill(out, gathered + std::size_t(k + 1) * length, R(0));
  }
  each_format([&](auto format) {
    constexpr int f = format;
    if (f != far.format) return;
    dots<Stored<f>, R, K>(std::get<f>(chunks_)[far.chunk].data() + far.data, std::ptrdiff_t(length),
                          std::ptrdiff_t(to.rank) * parts, gathered, std::ptrdiff_t(length), sums);
  });
  for (Local i = 0; i < to.rank; ++i) {
    R t[K];
    combine<is_complex<T>, K>(sums + std::size_t(i) * parts * K, t);
    for (int k = 0; k < K; ++k) y[k * row_ld() + i] = t[k];
  }
}

template <Scalar T>
void NestedField<T>::add_rows(T* rows, int k, const comm::Communicator& comm) const {
  by_columns(k, [&](auto planes, int column) {
    constexpr int K = planes;
    each_by_cost<R>(cost_, &comm,
                    [&](std::size_t node, std::vector<R>& buffer) { couple<K>(node, column * parts, buffer); });
    rows_->down(K, row_values_.data(), row_ld(), rows, k, column, comm);
  });
}

// Which far rows meet which piece of the columns' coefficients: pieces are done in parallel, and each adds in the order
// of the far rows, so that their number does not change a bit.
template <Scalar T>
void NestedField<T>::meet() const {
  if (!pieces_.empty()) return;
  constexpr std::size_t count = 64;
  pieces_.resize(count);
  const std::size_t all = std::max<std::size_t>(1, sharing_.coefficients);
  for (std::size_t node = 0; node < far_.size(); ++node) {
    const FarRow& far = far_[node];
    std::uint32_t begin = 0;
    for (std::uint32_t r = far.first_run; r < far.last_run; ++r) {
      auto& piece = pieces_[std::size_t(runs_[r].offset) * count / all];
      if (piece.empty() || piece.back().node != node) piece.push_back({std::uint32_t(node), r, r, begin});
      piece.back().last = r + 1;
      begin += runs_[r].count;
    }
  }
}

template <Scalar T>
template <int K>
void NestedField<T>::couple_back(int plane, const comm::Communicator& comm) const {
  R* const x = column_values_.data() + std::ptrdiff_t(plane) * column_ld();
  const auto one = [&](const Meeting& m, std::vector<R>& buffer) {
    const FarRow& far = far_[m.node];
    const BasisNode& from = rows_->nodes()[m.node];
    std::size_t length = 0;
    for (std::uint32_t r = m.first; r < m.last; ++r) length += runs_[r].count;
    buffer.assign(length * K, R(0));
    const Run whole{0, std::uint32_t(from.rank), 1};
    each_format([&](auto format) {
      constexpr int f = format;
      if (f != far.format) return;
      multiply_add<Stored<f>, R, K, is_complex<T>>(
          std::get<f>(chunks_)[far.chunk].data() + far.data + m.begin, int(length), std::ptrdiff_t(far.length), &whole,
          &whole + 1, row_values_.data() + from.at, row_ld(), buffer.data(), std::ptrdiff_t(length));
    });
    for (int k = 0; k < K; ++k) {
      const R* in = buffer.data() + std::size_t(k) * length;
      for (std::uint32_t r = m.first; r < m.last; ++r) {
        R* const to = x + k * column_ld() + runs_[r].offset;
        const R scale = R(runs_[r].scale);
        for (std::uint32_t j = 0; j < runs_[r].count; ++j) to[j] += scale * *in++;
      }
    }
  };
  exec::parallel_claims(pieces_.size(), 1, true, [&](exec::Claims& claims) {
    std::vector<R> buffer;
    const bool polls = exec::may_poll();
    claims.each([&](std::size_t piece) {
      for (const Meeting& m : pieces_[piece]) one(m, buffer);
      if (polls) comm.poll();
    });
  });
}

template <Scalar T>
void NestedField<T>::project_adjoint(const T* rows, int k, const comm::Communicator& comm) const {
  reserve(k);
  meet();
  std::fill_n(column_values_.data(), std::size_t(column_ld()) * std::size_t(k) * parts, R(0));
  by_columns(k, [&](auto planes, int column) {
    constexpr int K = planes;
    set_planes<K>(rows_->count(),
                  [&](std::size_t i, int c) { return rows[i * std::size_t(k) + std::size_t(column + c)]; });
    rows_->up(K, z_.data(), std::ptrdiff_t(ldz_), row_values_.data(), row_ld(), comm);
    couple_back<K>(column * parts, comm);
  });
}

template <Scalar T>
void NestedField<T>::add_columns(T* columns, int k, const comm::Communicator& comm) const {
  by_columns(k, [&](auto planes, int column) {
    constexpr int K = planes;
    columns_->down(K, column_values_.data() + std::ptrdiff_t(column) * parts * column_ld(), column_ld(),
                   columns + std::size_t(columns_->first()) * std::size_t(k), k, column, comm);
  });
}

template <Scalar T>
std::array<double, formats> NestedField<T>::bytes() const {
  std::array<double, formats> all = rows_->bytes();
  if (columns_ != rows_)
    for (int f = 0; f < formats; ++f) all[std::size_t(f)] += columns_->bytes()[std::size_t(f)];
  each_format([&](auto f) {
    for (const auto& chunk : std::get<f>(chunks_)) all[f] += double(chunk.size_bytes());
  });
  return all;
}

template <Scalar T>
double NestedField<T>::index_bytes() const {
  return rows_->index_bytes() + (columns_ != rows_ ? columns_->index_bytes() : 0) +
         double(far_.size() * sizeof(FarRow) + runs_.size() * sizeof(Run));
}

template <Scalar T>
double NestedField<T>::flops() const {
  double numbers = 0;
  for (std::size_t i = 0; i < far_.size(); ++i) numbers += double(far_[i].length) * rows_->nodes()[i].rank * parts;
  return rows_->flops() + columns_->flops() + numbers * (is_complex<T> ? 4 : 2);
}

template <Scalar T>
std::uint64_t NestedField<T>::checksum() const {
  exec::Checksum sum;
  rows_->add_to(sum);
  if (columns_ != rows_) columns_->add_to(sum);
  each_format([&](auto f) {
    for (const auto& chunk : std::get<int(f)>(chunks_)) sum.add(chunk);
  });
  return sum.value();
}

template <Scalar T>
void NestedField<T>::save(std::vector<SavedPart>& saved) const {
  rows_->save("nested.rows", saved);
  if (columns_ != rows_) columns_->save("nested.columns", saved);
  std::vector<std::int64_t> numbers{std::int64_t(made_), std::int64_t(sizeof(FarRow)),
                                    std::int64_t(sharing_.coefficients)};
  each_format([&](auto f) { numbers.push_back(std::int64_t(std::get<f>(chunks_).size())); });
  save_copy(saved, "nested.numbers", std::move(numbers));
  detail::save(saved, "nested.far", far_);
  detail::save(saved, "nested.runs", runs_);
  detail::save(saved, "nested.shared", sharing_.clusters);
  detail::save(saved, "nested.parts", sharing_.parts);
  detail::save(saved, "nested.offsets", sharing_.offsets);
  detail::save(saved, "nested.ghosts", sharing_.ghosts);
  each_format([&](auto f) {
    const auto& chunks = std::get<f>(chunks_);
    for (std::size_t c = 0; c < chunks.size(); ++c) detail::save(saved, message("nested.", int(f), ".", c), chunks[c]);
  });
}

template <Scalar T>
NestedField<T>::NestedField(const std::vector<SavedPart>& saved)
    : rows_(std::make_shared<const NestedBasis<T>>("nested.rows", saved)), columns_(rows_) {
  const bool two =
      std::any_of(saved.begin(), saved.end(), [](const auto& p) { return p.name == "nested.columns.nodes"; });
  if (two) columns_ = std::make_shared<const NestedBasis<T>>("nested.columns", saved);
  const auto numbers = loaded<std::int64_t>(saved, "nested.numbers");
  if (numbers.size() != 3 + formats || numbers[1] != std::int64_t(sizeof(FarRow)))
    throw Error(ErrorKind::input, "a saved hmatrix of another build of tacit");
  made_ = std::uint64_t(numbers[0]);
  sharing_.coefficients = std::size_t(numbers[2]);
  far_ = loaded<FarRow>(saved, "nested.far");
  runs_ = loaded<Run>(saved, "nested.runs");
  sharing_.clusters = loaded<SharedCluster>(saved, "nested.shared");
  sharing_.parts = loaded<SharedPart>(saved, "nested.parts");
  sharing_.offsets = loaded<Global>(saved, "nested.offsets");
  sharing_.ghosts = loaded<Global>(saved, "nested.ghosts");
  each_format([&](auto f) {
    for (std::int64_t c = 0; c < numbers[3 + std::size_t(f)]; ++c) {
      const std::string name = message("nested.", int(f), ".", c);
      std::get<f>(chunks_).push_back(seen<Stored<f>>(saved, name));
      owners_.push_back(part_of(saved, name).owner);
    }
  });
  divide();
}

#define TACIT_INSTANTIATE(T) template class NestedField<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op::detail
