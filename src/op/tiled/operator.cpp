#include "sources.hpp"

#include <algorithm>

namespace tacit::op {
namespace {

template <class T>
layout::Clusters clusters_of(Local rows, Local columns, const RowSource<T>& source,
                             const layout::ClusterOptions& options) {
  constexpr Local some = 1024;
  std::vector<Global> start{0};
  std::vector<Local> column;
  RowBuffer<T> buffer;
  for (Local begin = 0; begin < rows; begin += std::min(some, rows - begin)) {
    const Local end = begin + std::min(some, rows - begin);
    buffer.start = {0}, buffer.column.clear(), buffer.value.clear();
    source(begin, end, buffer);
    for (Local r = begin; r < end; ++r)
      start.push_back(Global(column.size()) + buffer.start[std::size_t(r - begin) + 1]);
    column.insert(column.end(), buffer.column.begin(), buffer.column.end());
  }
  return layout::cluster({start, column, columns}, options);
}

// The rows of `source` in the given order, with permuted columns.
template <class T>
RowSource<T> in_order(const RowSource<T>& source, const std::vector<Local>& rows, const std::vector<Local>& columns) {
  std::vector<Local> place(columns.size());
  for (std::size_t j = 0; j < columns.size(); ++j) place[std::size_t(columns[j])] = Local(j);
  return [&source, &rows, place = std::move(place)](Local begin, Local end, RowBuffer<T>& out) {
    const std::size_t first = out.column.size();
    for (Local i = begin; i < end; ++i) source(rows[std::size_t(i)], rows[std::size_t(i)] + 1, out);
    for (std::size_t e = first; e < out.column.size(); ++e) {
      const Local c = out.column[e];
      if (c >= 0 && std::size_t(c) < place.size()) out.column[e] = place[std::size_t(c)];
    }
  };
}

}  // namespace

template <Scalar T>
struct TiledSpmm<T>::Parts {
  std::unique_ptr<LocalProduct<T>> forward, backward;
  std::unique_ptr<comm::SparseReduction> reduction;
  int minibatch = 0;
  Vectors vectors = Vectors::full;
  bool local = false;              // one rank, which touches all elements: nothing is added over ranks or spread
  mutable exec::Array<T> touched;  // the elements touched, of one batch of columns
};

template <Scalar T>
TiledSpmm<T>::TiledSpmm(Space range, Space domain, Split split, std::vector<Global> touched,
                        const RowSource<T>& forward, const RowSource<T>& backward, const TiledSpmmOptions& options)
    : Operator<T, Host>(std::move(range), std::move(domain)), split_(split), parts_(std::make_shared<Parts>()) {
  comm::collective(this->range().comm(), [&] { build(std::move(touched), forward, backward, options); });
}

template <Scalar T>
TiledSpmm<T>::TiledSpmm(Space range, Space domain, const Rows<T>& rows, const TiledSpmmOptions& options)
    : Operator<T, Host>(std::move(range), std::move(domain)), split_(Split::rows), parts_(std::make_shared<Parts>()) {
  comm::collective(this->range().comm(), [&] {
    const detail::RowSources<T> made(this->range(), this->domain(), rows);
    build(made.touched, made.forward(), made.backward(), options);
  });
}

template <Scalar T>
TiledSpmm<T>::TiledSpmm(Space range, Space domain, Split split, std::vector<Global> touched,
                        std::unique_ptr<LocalProduct<T>> forward, std::unique_ptr<LocalProduct<T>> backward,
                        const TiledSpmmOptions& options)
    : Operator<T, Host>(std::move(range), std::move(domain)), split_(split), parts_(std::make_shared<Parts>()) {
  comm::collective(this->range().comm(), [&] {
    const auto [rows, columns] = spread(std::move(touched), options);
    require(forward && backward && forward->rows() == rows && forward->columns() == columns &&
                backward->rows() == columns && backward->columns() == rows,
            "the products of a rank with ", rows, " rows and ", columns, " columns are of another size");
    parts_->forward = std::move(forward), parts_->backward = std::move(backward);
    settle_facts();
  });
}

template <Scalar T>
TiledSpmm<T>::TiledSpmm(const TiledSpmm& of, bool full_vectors, comm::MessageFormat messages)
    : Operator<T, Host>(of.range(), of.domain()),
      split_(of.split_),
      entries_(of.entries_),
      largest_(of.largest_),
      fault_(of.fault_),
      order_(of.order_),
      full_vectors_(full_vectors),
      messages_(messages),
      parts_(of.parts_) {}

template <Scalar T>
TiledSpmm<T>::~TiledSpmm() = default;

template <Scalar T>
const Operator<T, Host>& TiledSpmm<T>::accurate_to(double relative) const {
  if (!in_full_[0] || half_unit(parts_->vectors) <= relative) return *this;
  return *in_full_[comm::half_unit(messages_) <= relative ? 0 : 1];
}

template <Scalar T>
bool TiledSpmm<T>::intact() const {
  return parts_->forward->intact() && parts_->backward->intact();
}

template <Scalar T>
std::shared_ptr<const Operator<in_double_t<T>, Host>> TiledSpmm<T>::in_double() const {
  if constexpr (std::same_as<T, float>) {
    if (!stores_entries()) return nullptr;
    const auto rows_of = [](const TiledMatrix<T>& a) -> RowSource<double> {
      return [&a](Local begin, Local end, RowBuffer<double>& out) {
        RowBuffer<T> some;
        some.start = {0};
        a.rows(begin, end, some);
        out.column = std::move(some.column);
        out.value.assign(some.value.begin(), some.value.end());
        out.start = std::move(some.start);
      };
    };
    const auto wider = [&](const TiledMatrix<T>& a) -> std::unique_ptr<LocalProduct<double>> {
      TiledOptions options;
      options.row_order = a.row_order(), options.column_order = a.column_order();
      return std::make_unique<TiledMatrix<double>>(a.rows(), a.columns(), rows_of(a), options);
    };
    return std::make_shared<const TiledSpmm<double>>(this->range(), this->domain(), split_,
                                                     parts_->reduction->touched(), wider(forward()), wider(backward()));
  } else {
    return nullptr;
  }
}

// Sets up the reduction of partial values; the rows and columns of this rank's part.
template <Scalar T>
std::pair<Local, Local> TiledSpmm<T>::spread(std::vector<Global> touched, const TiledSpmmOptions& options) {
  require(options.minibatch >= 0, "messages of ", options.minibatch, " columns");
  parts_->minibatch = options.minibatch;
  detail::TiledPart part(this->range(), this->domain(), split_, std::move(touched), options.groups);
  parts_->local = part.local, parts_->reduction = std::move(part.reduction);
  return {part.rows, part.columns};
}

// Sets the properties of the whole matrix.
template <Scalar T>
void TiledSpmm<T>::settle_facts() {
  const auto& comm = this->range().comm();
  entries_ = detail::entries_of(comm, parts_->forward->entries(), parts_->backward->entries());
  largest_ = comm.all_max(parts_->forward->largest());
  const std::string fault = parts_->forward->fault();
  const int first = int(comm.all_min(Global(fault.empty() ? comm.size() : comm.rank())));
  if (first < comm.size()) fault_ = comm.broadcast(fault, first);
  if (parts_->vectors == Vectors::full) return;
  messages_ = comm::MessageFormat::fixed16;
  in_full_[0].reset(new TiledSpmm(*this, true, messages_));
  in_full_[1].reset(new TiledSpmm(*this, true, comm::MessageFormat::full));
}

template <Scalar T>
void TiledSpmm<T>::build(std::vector<Global> touched, const RowSource<T>& forward, const RowSource<T>& backward,
                         const TiledSpmmOptions& options) {
  const auto [rows, columns] = spread(std::move(touched), options);
  TiledOptions there_options = options.matrix, back_options = options.matrix;
  RowSource<T> there_source, back_source;
  if (options.clusters) {
    require(options.matrix.row_order.empty() && options.matrix.column_order.empty(),
            "a tiled matrix with both clusters and a given order");
    const auto found = clusters_of(rows, columns, forward, *options.clusters);
    order_ = layout::name_of(found.how);
    if (found.how != layout::Clustering::automatic) {
      there_options.row_order = back_options.column_order = found.rows;
      there_options.column_order = back_options.row_order = found.columns;
      there_source = in_order(forward, there_options.row_order, there_options.column_order);
      back_source = in_order(backward, back_options.row_order, back_options.column_order);
    }
  }
  parts_->forward =
      std::make_unique<TiledMatrix<T>>(rows, columns, there_source ? there_source : forward, there_options);
  parts_->backward =
      std::make_unique<TiledMatrix<T>>(columns, rows, back_source ? back_source : backward, back_options);
  parts_->vectors = options.matrix.vectors;
  settle_facts();
}

template <Scalar T>
const LocalProduct<T>& TiledSpmm<T>::product(bool adjoint) const {
  return adjoint ? *parts_->backward : *parts_->forward;
}
template <Scalar T>
bool TiledSpmm<T>::stores_entries() const {
  return dynamic_cast<const TiledMatrix<T>*>(parts_->forward.get()) != nullptr;
}
template <Scalar T>
const TiledMatrix<T>& TiledSpmm<T>::stored(bool adjoint) const {
  const auto* const matrix = dynamic_cast<const TiledMatrix<T>*>(&product(adjoint));
  require(matrix != nullptr, "this operator stores no entries (", product(adjoint).storage(),
          "); build it in the format list, bitmap or plain to read them");
  return *matrix;
}
template <Scalar T>
const comm::SparseReduction& TiledSpmm<T>::reduction() const {
  return *parts_->reduction;
}

template <Scalar T>
Cost TiledSpmm<T>::cost_of(bool adjoint) const {
  const auto& matrix = product(adjoint);
  Cost c;
  c.flops = matrix.flops();
  c.bytes = matrix.bytes() + sizeof(T) * (double(matrix.rows()) + double(matrix.columns()));
  detail::add_messages<T>(c, this->range().comm(), *parts_->reduction, !sums(adjoint), messages_);
  return c;
}

template <Scalar T>
void TiledSpmm<T>::multiply(bool adjoint, const T* x, int x_stride, T* y, int y_stride, int k,
                            const comm::Communicator* comm) const {
  const auto& matrix = product(adjoint);
  if (full_vectors_) matrix.multiply_full(x, x_stride, y, y_stride, k, comm);
  else matrix.multiply(x, x_stride, y, y_stride, k, comm);
}

// The number of columns of a batch that begins at `from`.
static int batch_of(int minibatch, int columns, int from) {
  return minibatch == 0 ? columns : std::min(minibatch, columns - from);
}

// For a batch of columns from `from` on: multiplies and starts adding over ranks, or starts the spread.
template <Scalar T>
int TiledSpmm<T>::start_batch(const Vector<T, Host>& x, bool adjoint, int from) const {
  const int k = x.columns(), n = batch_of(parts_->minibatch, k, from);
  if (!sums(adjoint)) return parts_->reduction->start_spread(x.data() + from, n, k, messages_);
  const std::size_t size = std::size_t(product(adjoint).rows()) * std::size_t(n);
  if (parts_->touched.size() < size) parts_->touched = exec::Array<T>(size);
  multiply(adjoint, x.data() + from, k, parts_->touched.data(), n, n, &this->range().comm());
  return parts_->reduction->start_sum(parts_->touched.data(), n, messages_);
}

template <Scalar T>
int TiledSpmm<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool adjoint) const {
  if (parts_->local) return -1;
  exec::settle();
  return start_batch(x, adjoint, 0);
}

template <Scalar T>
void TiledSpmm<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const {
  const int k = x.columns();
  if (parts_->local) return multiply(adjoint, x.data(), k, y.data(), k, k);
  auto& reduction = *parts_->reduction;
  for (int from = 0; from < k;) {
    const int n = batch_of(parts_->minibatch, k, from), next = from + n;
    if (sums(adjoint)) {
      // The next batch is multiplied while these sums are in flight, unless another product uses the second slot.
      const bool ahead = next < k && reduction.has_room();
      const int following = ahead ? start_batch(x, adjoint, next) : -1;
      reduction.finish_sum(token, y.data() + from, n, k);
      token = ahead || next >= k ? following : start_batch(x, adjoint, next);
    } else {
      const std::size_t size = std::size_t(product(adjoint).columns()) * std::size_t(n);
      if (parts_->touched.size() < size) parts_->touched = exec::Array<T>(size);
      reduction.finish_spread(token, x.data() + from, n, k, parts_->touched.data());
      if (next < k) token = start_batch(x, adjoint, next);
      multiply(adjoint, parts_->touched.data(), n, y.data() + from, k, n, &this->range().comm());
    }
    from = next;
  }
}

template <Scalar T>
void TiledSpmm<T>::abandon(int token) const noexcept {
  if (token >= 0) parts_->reduction->abandon(token);
}

template <Scalar T>
void TiledSpmm<T>::apply_clamped(const Vector<T, Host>& x, Vector<T, Host>& y, const Clamp<T>& clamp) const {
  require(parts_->local, "a clamped product works on one rank that holds the whole matrix");
  require(x.space() == this->domain() && y.space() == this->range() && x.columns() == y.columns() && &x != &y,
          "vectors that do not fit a clamped product of ", this->range().size(), " x ", this->domain().size());
  this->count_apply();
  exec::settle();
  parts_->forward->multiply(x.data(), x.columns(), y.data(), x.columns(), x.columns(), nullptr, &clamp);
}

template class TiledSpmm<float>;
template class TiledSpmm<double>;

}  // namespace tacit::op
