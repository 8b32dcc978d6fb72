#include "batched.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include <algorithm>
#include <atomic>
#include <complex>
#include <numeric>
#include <tuple>

namespace tacit::op {

std::pair<std::vector<std::size_t>, std::vector<Batch>> plan_batches(const std::vector<BatchTask>& tasks,
                                                                     const BatchOptions& options) {
  require(options.count >= 1, "batches of ", options.count, " tasks");
  require(options.queues >= 1, "a plan with ", options.queues, " queues");
  require(std::is_sorted(options.ranges.begin(), options.ranges.end()) &&
              (options.ranges.empty() || options.ranges.front() >= 1),
          "ranges of rows that are not ascending");
  std::vector<std::size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  const auto sort_by = [&](auto&& key) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(tasks[a]) < key(tasks[b]); });
  };
  const auto range = [&](Local rows) {
    return std::upper_bound(options.ranges.begin(), options.ranges.end(), rows) - options.ranges.begin();
  };
  switch (options.order) {
    case TaskOrder::none:
      break;
    case TaskOrder::rows:
      sort_by([](const BatchTask& t) { return t.rows; });
      break;
    case TaskOrder::grouped:
      sort_by([](const BatchTask& t) { return std::pair((t.rows - 1) / 8, t.columns); });
      break;
    case TaskOrder::columns:
      sort_by([](const BatchTask& t) { return t.begin; });
      break;
  }
  // A batch has tasks of one range: tasks are sorted by range first, then in the order chosen.
  const bool by_range = options.cut == BatchCut::ranges;
  if (by_range)
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return range(tasks[a].rows) < range(tasks[b].rows); });
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const BatchTask& t = tasks[order[i]];
    if (batches.empty() || batches.back().last - batches.back().first >= std::size_t(options.count) ||
        (by_range && range(t.rows) != range(batches.back().most_rows)))
      batches.push_back({0, i, i, t.rows, t.rows, t.columns, t.columns, 0, 0, 0, 0, 0});
    Batch& b = batches.back();
    b.last = i + 1;
    b.least_rows = std::min(b.least_rows, t.rows), b.most_rows = std::max(b.most_rows, t.rows);
    b.least_columns = std::min(b.least_columns, t.columns), b.most_columns = std::max(b.most_columns, t.columns);
    b.numbers += double(t.rows) * t.columns;
    b.working += (t.rows + 31) / 32;
  }
  for (Batch& b : batches) {
    const double count = double(b.last - b.first);
    b.stored = options.padded ? count * b.most_rows * b.most_columns : b.numbers;
    b.started = count * ((b.most_rows + 31) / 32);
  }
  return {std::move(order), std::move(batches)};
}

namespace detail {

/// The numbers of a task: those of a dense block or of U, or of V (`factor`).
template <Scalar T>
struct BatchedProduct<T>::Source {
  std::size_t block;
  bool factor;
};

/// Stores the numbers as tasks read them.
template <Scalar T>
void BatchedProduct<T>::copy_blocks(const std::vector<BlockMatrix<T>>& blocks, const std::vector<Source>* sources,
                                    std::size_t numbers) {
  data_ = exec::Array<T>(numbers);
  for (int list = 0; list < 2; ++list)
    for (std::size_t i = 0; i < tasks_[list].size(); ++i) {
      const Task& t = tasks_[list][i];
      const auto& m = blocks[sources[list][i].block];
      const T* in = t.transposed ? m.v.data() : m.u.data();
      // V is stored by its columns, which are the task's rows.
      const std::size_t height = std::size_t(t.transposed ? t.columns : t.rows),
                        width = std::size_t(t.transposed ? t.rows : t.columns),
                        ld = std::size_t(t.transposed ? t.stored_columns : t.stored_rows);
      for (std::size_t j = 0; j < width; ++j) std::copy_n(in + j * height, height, data_.data() + t.data + j * ld);
    }
}

template <Scalar T>
BatchedProduct<T>::BatchedProduct(Local first_row, Local rows, Local columns, std::vector<BlockMatrix<T>> blocks,
                                  const BatchOptions& options)
    : rows_(rows), columns_(columns), options_(options) {
  std::vector<BatchTask> shapes[2];
  std::vector<Source> sources[2];
  std::vector<Local> first_t(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const auto& m = blocks[b];
    if (m.dense) {
      shapes[0].push_back({m.block.rows(), m.block.columns(), m.block.column_begin}), sources[0].push_back({b, false});
    } else if (m.rank > 0) {
      first_t[b] = checked_cast<Local>(std::size_t(columns) + ranks_, "columns and ranks together");
      ranks_ += std::size_t(m.rank);
      shapes[0].push_back({m.rank, m.block.columns(), m.block.column_begin}), sources[0].push_back({b, true});
      shapes[1].push_back({m.block.rows(), m.rank, first_t[b]}), sources[1].push_back({b, false});
    }
  }
  std::size_t numbers = 0;
  for (int list = 0; list < 2; ++list) {
    auto [order, batches] = plan_batches(shapes[list], options);
    std::vector<Source> sorted;
    for (auto& batch : batches) {
      batch.list = list;
      for (std::size_t i = batch.first; i < batch.last; ++i) {
        const BatchTask& shape = shapes[list][order[i]];
        const Source source = sources[list][order[i]];
        const Block& b = blocks[source.block].block;
        Task t{shape.rows,
               shape.columns,
               options.padded ? batch.most_rows : shape.rows,
               options.padded ? batch.most_columns : shape.columns,
               shape.begin,
               b.row_begin - first_row,
               source.factor,
               numbers};
        if (source.factor) t.to = first_t[source.block] - columns;
        numbers += std::size_t(t.stored_rows) * std::size_t(t.stored_columns);
        pad_ = std::max({pad_, std::size_t(t.stored_rows), std::size_t(t.stored_columns)});
        tasks_[list].push_back(t), sorted.push_back(source);
      }
      report_.bytes += batch.numbers * sizeof(T), report_.padded_bytes += batch.stored * sizeof(T);
      report_.batches.push_back(batch);
    }
    report_.tasks += Global(tasks_[list].size());
    sources[list] = std::move(sorted);
  }
  copy_blocks(blocks, sources, numbers);
  // With space at the end that padded tasks read and write.
  z_ = exec::Array<T>(std::size_t(columns) + ranks_ + pad_);
  sum_ = exec::Array<T>(std::size_t(rows) + pad_);
}

template <Scalar T>
void BatchedProduct<T>::run(const Batch& batch, const T* x, T* y, bool atomic) const {
  using R = real_t<T>;
  std::vector<T> part(pad_);
  const double start = wall_time();
  for (std::size_t i = batch.first; i < batch.last; ++i) {
    const Task& t = tasks_[batch.list][i];
    const T *a = data_.data() + t.data, *const from = x + t.from;
    if (t.transposed) {  // no other task writes there
      T* const to = z_.data() + columns_ + t.to;
      for (Local j = 0; j < t.stored_rows; ++j, a += t.stored_columns) {
        T sum(0);
        if constexpr (is_complex<T>) {
          R re(0), im(0);
#pragma omp simd reduction(+ : re, im)
          for (Local r = 0; r < t.stored_columns; ++r) {
            re += a[r].real() * from[r].real() + a[r].imag() * from[r].imag();
            im += a[r].real() * from[r].imag() - a[r].imag() * from[r].real();
          }
          sum = {re, im};
        } else {
#pragma omp simd reduction(+ : sum)
          for (Local r = 0; r < t.stored_columns; ++r) sum += a[r] * from[r];
        }
        if (j < t.rows) to[j] = sum;
      }
      continue;
    }
    T* const p = part.data();
    std::fill_n(p, t.stored_rows, T(0));
    for (Local j = 0; j < t.stored_columns; ++j, a += t.stored_rows) {
      const T c = j < t.columns ? from[j] : T(0);
#pragma omp simd
      for (Local r = 0; r < t.stored_rows; ++r) p[r] += c * a[r];
    }
    T* const to = y + t.to;
    if (!atomic) {
      for (Local r = 0; r < t.rows; ++r) to[r] += p[r];
    } else {
      auto* const out = reinterpret_cast<R*>(to);
      const auto* const in = reinterpret_cast<const R*>(p);
      for (Local r = 0; r < t.rows * Local(sizeof(T) / sizeof(R)); ++r)
        std::atomic_ref<R>(out[r]).fetch_add(in[r], std::memory_order_relaxed);
    }
  }
  report_.batches[std::size_t(&batch - report_.batches.data())].seconds = wall_time() - start;
}

template <Scalar T>
void BatchedProduct<T>::multiply(const T* x, std::span<const Global> order, T* y, int k,
                                 const comm::Communicator& comm) const {
  const int queues = options_.queues;
  for (int c = 0; c < k; ++c) {
    for (Local p = 0; p < columns_; ++p)
      z_[std::size_t(p)] = x[std::size_t(order[std::size_t(p)]) * std::size_t(k) + std::size_t(c)];
    std::fill_n(sum_.data(), sum_.size(), T(0));
    for (int list = 0; list < 2; ++list)
      exec::parallel_for(
          std::size_t(queues), true,
          [&](std::size_t queue) {
            int next = 0;
            for (const Batch& batch : report_.batches) {
              if (batch.list != list || std::size_t(next++ % queues) != queue) continue;
              run(batch, z_.data(), sum_.data(), queues > 1);
              if (exec::may_poll()) comm.poll();
            }
          },
          1);
    for (Local r = 0; r < rows_; ++r) y[std::size_t(r) * std::size_t(k) + std::size_t(c)] = sum_[std::size_t(r)];
  }
}

#define TACIT_INSTANTIATE(T) template class BatchedProduct<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace detail
}  // namespace tacit::op
