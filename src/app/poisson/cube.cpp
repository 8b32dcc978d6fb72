#include <tacit/app/poisson/cube.hpp>

#include <tacit/base/error.hpp>

#include <cmath>
#include <numbers>

namespace tacit::app::poisson {
namespace {

/// The numbers of boxes along the axes, x <= y <= z with x y z = ranks, that minimise the surface of a box.
std::array<int, 3> boxes(int ranks) {
  std::array<int, 3> best{1, 1, ranks};
  double least = 0;
  for (int x = 1; x <= ranks; ++x)
    for (int y = x; x * y <= ranks; ++y) {
      if (ranks % (x * y) != 0 || ranks / (x * y) < y) continue;
      const int z = ranks / (x * y);
      const double surface = double(x) + y + z;  // times ranks: 1 / (x y) + 1 / (y z) + 1 / (z x) for a unit cube
      if (least == 0 || surface < least) least = surface, best = {x, y, z};
    }
  return best;
}

layout::Space space_of(const comm::Communicator& comm, const std::vector<Global>& offsets) {
  return layout::Space::distributed(comm, layout::Partition(offsets));
}

double factor(Solution solution, double t) {
  return solution == Solution::sine ? std::sin(std::numbers::pi * t) : t * (1 - t) * std::exp(t);
}
/// Minus the second derivative of factor().
double bent(Solution solution, double t) {
  constexpr double pi = std::numbers::pi;
  return solution == Solution::sine ? pi * pi * std::sin(pi * t) : t * (3 + t) * std::exp(t);
}

}  // namespace

template <Scalar T>
Cube<T>::Cube(const comm::Communicator& comm, Global nodes, Parts parts)
    : nodes_(nodes), points_(nodes - 2), space_(layout::Space::distributed(comm, Global(0))) {
  require(nodes >= 3, "a cube with ", nodes, " nodes along an edge; at least 3 are needed (one inside)");
  require(nodes <= 2000000, "a cube with ", nodes, " nodes along an edge");
  const int size = comm.size();
  ranks_ = parts == Parts::boxes ? boxes(size) : std::array<int, 3>{1, 1, size};
  for (int axis = 0; axis < 3; ++axis) cut_[axis] = layout::Partition::blocks(points_, ranks_[axis]);
  offsets_.push_back(0);
  for (int r = 0; r < size; ++r) {
    const std::array<int, 3> place{r % ranks_[0], r / ranks_[0] % ranks_[1], r / ranks_[0] / ranks_[1]};
    Global count = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const Global begin = cut_[axis].begin(place[axis]), end = cut_[axis].end(place[axis]);
      count *= end - begin;
      if (r == comm.rank()) begin_[axis] = begin, end_[axis] = end;
    }
    offsets_.push_back(offsets_.back() + count);
  }
  space_ = space_of(comm, offsets_);
}

template <Scalar T>
template <class F>
void Cube<T>::each(F&& f) const {
  for (Global k = begin_[2]; k < end_[2]; ++k)
    for (Global j = begin_[1]; j < end_[1]; ++j)
      for (Global i = begin_[0]; i < end_[0]; ++i) f(i, j, k);
}

template <Scalar T>
Global Cube<T>::number(Global i, Global j, Global k) const {
  const Global at[3] = {i, j, k};
  int owner[3];
  for (int axis = 0; axis < 3; ++axis)
    owner[axis] = at[axis] >= begin_[axis] && at[axis] < end_[axis] ? -1 : cut_[axis].owner(at[axis]);
  Global within = 0, stride = 1;
  int rank = 0, ranks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const int box = owner[axis] < 0 ? cut_[axis].owner(begin_[axis]) : owner[axis];
    within += (at[axis] - cut_[axis].begin(box)) * stride;
    stride *= cut_[axis].end(box) - cut_[axis].begin(box);
    rank += box * ranks;
    ranks *= ranks_[axis];
  }
  return offsets_[std::size_t(rank)] + within;
}

template <Scalar T>
op::Rows<T> Cube<T>::rows() const {
  const double h = 1.0 / double(nodes_ - 1);
  const T center = T(6 / (h * h)), face = T(-1 / (h * h));
  op::Rows<T> rows;
  rows.start.reserve(std::size_t(space_.local_size()) + 1);
  rows.column.reserve(std::size_t(space_.local_size()) * 7);
  rows.value.reserve(std::size_t(space_.local_size()) * 7);
  std::vector<std::pair<Global, T>> row;
  each([&](Global i, Global j, Global k) {
    row.assign(1, {number(i, j, k), center});
    const auto neighbour = [&](Global a, Global b, Global c, Global moved) {
      if (moved >= 0 && moved < points_) row.emplace_back(number(a, b, c), face);
    };
    neighbour(i - 1, j, k, i - 1), neighbour(i + 1, j, k, i + 1);
    neighbour(i, j - 1, k, j - 1), neighbour(i, j + 1, k, j + 1);
    neighbour(i, j, k - 1, k - 1), neighbour(i, j, k + 1, k + 1);
    std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [column, value] : row) rows.column.push_back(column), rows.value.push_back(value);
    rows.start.push_back(Global(rows.column.size()));
  });
  return rows;
}

template <Scalar T>
std::shared_ptr<op::Csr<T>> Cube<T>::matrix(op::Format format) const {
  return std::make_shared<op::Csr<T>>(space_, space_, rows(), format);
}

template <Scalar T>
std::shared_ptr<op::Stencil<T>> Cube<T>::stencil() const {
  require(ranks_[0] == 1 && ranks_[1] == 1, "a stencil needs whole planes on every rank: parts slices, not boxes");
  const double h = 1.0 / double(nodes_ - 1);
  return std::make_shared<op::Stencil<T>>(space_, op::Grid({points_, points_, points_}),
                                          op::laplacian<T>(3, {h, h, h}));
}

template <Scalar T>
std::vector<T> Cube<T>::right_side(Solution solution) const {
  const double h = 1.0 / double(nodes_ - 1);
  std::vector<double> u(std::size_t(points_), 0), f(std::size_t(points_), 0);
  for (Global i = 0; i < points_; ++i)
    u[std::size_t(i)] = factor(solution, double(i + 1) * h), f[std::size_t(i)] = bent(solution, double(i + 1) * h);
  std::vector<T> values;
  values.reserve(std::size_t(space_.local_size()));
  each([&](Global i, Global j, Global k) {
    const auto [a, b, c] = std::array{u[std::size_t(i)], u[std::size_t(j)], u[std::size_t(k)]};
    values.push_back(T(f[std::size_t(i)] * b * c + a * f[std::size_t(j)] * c + a * b * f[std::size_t(k)]));
  });
  return values;
}

template <Scalar T>
std::vector<T> Cube<T>::exact(Solution solution) const {
  const double h = 1.0 / double(nodes_ - 1);
  std::vector<double> u(std::size_t(points_), 0);
  for (Global i = 0; i < points_; ++i) u[std::size_t(i)] = factor(solution, double(i + 1) * h);
  std::vector<T> values;
  values.reserve(std::size_t(space_.local_size()));
  each([&](Global i, Global j, Global k) {
    values.push_back(T(u[std::size_t(i)] * u[std::size_t(j)] * u[std::size_t(k)]));
  });
  return values;
}

template <Scalar T>
typename Cube<T>::Distance Cube<T>::distance(const layout::Vector<T>& x, Solution solution) const {
  require(x.space() == space_ && x.columns() == 1, "a vector of ", x.space().size(), " elements for a cube of ",
          space_.size(), " points");
  const auto u = exact(solution);
  const double h = 1.0 / double(nodes_ - 1);
  double sum = 0, largest = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double d = std::abs(double(x.data()[i]) - double(u[i]));
    sum += d * d;
    largest = d > largest || d != d ? d : largest;
  }
  space_.start_sum(&largest, 1, comm::Operation::max).wait(&largest);
  space_.sum(&sum, 1);
  return {largest, std::sqrt(sum * h * h * h)};
}

template class Cube<float>;
template class Cube<double>;

}  // namespace tacit::app::poisson
