#include "staged_impl.hpp"

#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <mutex>

namespace tacit::op {

template <class T>
Staging staging_of(Local rows, Local columns, const RowSource<T>& source, int block_rows, int capacity) {
  require(block_rows >= 1 && capacity >= 1 && capacity <= 65536, "blocks of ", block_rows, " rows and stages of ",
          capacity, " columns; at least 1 and at most 65536");
  const Local blocks = Local((Global(rows) + block_rows - 1) / block_rows);
  double entries = 0, staged = 0, stages = 0, padded = 0;
  std::mutex mutex;
  exec::parallel_claims(std::size_t(blocks), 1, true, [&](exec::Claims& claims) {
    RowBuffer<T> buffer;
    std::vector<Local> stamp(static_cast<std::size_t>(columns), -1), place(static_cast<std::size_t>(columns)), distinct;
    std::vector<std::int32_t> count;
    double own_entries = 0, own_staged = 0, own_stages = 0, own_padded = 0;  // whole numbers
    claims.each([&](std::size_t number) {
      const auto b = Local(number);
      const Local begin = b * block_rows, end = Local(std::min<Global>(rows, Global(begin) + block_rows));
      buffer.start = {0}, buffer.column.clear(), buffer.value.clear();
      source(begin, end, buffer);
      distinct.clear();
      for (const Local c : buffer.column)
        if (stamp[std::size_t(c)] != b) stamp[std::size_t(c)] = b, distinct.push_back(c);
      std::sort(distinct.begin(), distinct.end());
      for (std::size_t i = 0; i < distinct.size(); ++i) place[std::size_t(distinct[i])] = Local(i);
      const std::size_t of_block = (distinct.size() + std::size_t(capacity) - 1) / std::size_t(capacity);
      own_entries += double(buffer.column.size()), own_staged += double(distinct.size()),
          own_stages += double(of_block);
      count.assign(of_block * std::size_t(block_rows), 0);
      for (std::size_t r = 0; r + 1 < buffer.start.size(); ++r)
        for (auto i = std::size_t(buffer.start[r]); i < std::size_t(buffer.start[r + 1]); ++i)
          ++count[std::size_t(place[std::size_t(buffer.column[i])] / capacity) * std::size_t(block_rows) + r];
      for (std::size_t s = 0; s < of_block; ++s)
        for (std::size_t r = 0; r < std::size_t(block_rows); r += 32)
          own_padded +=
              32.0 * *std::max_element(count.begin() + std::ptrdiff_t(s * std::size_t(block_rows) + r),
                                       count.begin() + std::ptrdiff_t(s * std::size_t(block_rows) +
                                                                      std::min(std::size_t(block_rows), r + 32)));
    });
    const std::lock_guard lock(mutex);
    entries += own_entries, staged += own_staged, stages += own_stages, padded += own_padded;
  });
  if (staged == 0) return {};
  return {entries / staged, stages / double(blocks), padded / entries};
}

template Staging staging_of<float>(Local, Local, const RowSource<float>&, int, int);
template Staging staging_of<double>(Local, Local, const RowSource<double>&, int, int);
template class StagedMatrix<float, Host>;
template class StagedMatrix<double, Host>;

}  // namespace tacit::op
