#include "device_data.hpp"

#include "hierarchy.hpp"
#include "red_black.hpp"

#include <cmath>
#include <limits>

namespace tacit::precond::mg {

template <class S>
LevelData<S> RedBlackLevel<S>::device_data(bool row_sums, bool coefficients) const {
  LevelData<S> d;
  const op::Domain& domain = a_->boxes().domain();
  for (int a = 0; a < 3; ++a) d.cells[std::size_t(a)] = domain.cells(a);
  d.dimensions = dimensions_, d.constant = constant_, d.vanishes = vanishes(), d.linear = linear_;
  d.boxes = report.boxes, d.ranks = report.ranks, d.size = u_.size();
  std::int32_t tables = 0;
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    const Patch& p = patches_[i];
    PatchShape s;
    s.offset = p.offset, s.plane = p.plane, s.first = a_->boxes().offset(i);
    s.line = std::int32_t(p.line), s.half = std::int32_t(p.half), s.parity = p.parity;
    for (std::size_t a = 0; a < 3; ++a) {
      s.n[a] = std::int32_t(p.n[a]), s.wrap[a] = p.wrap[a], s.axis[a] = tables;
      tables += s.n[a];
      if (constant_) d.diagonal.insert(d.diagonal.end(), p.diagonal[a].begin(), p.diagonal[a].end());
      if (!coarse_) continue;
      s.child[a] = std::int32_t(d.child.size());
      for (const auto c : p.child[a]) d.child.push_back(std::int32_t(c));
      const Global lower = coarse_->patches_[i].box.lower[a];
      for (std::ptrdiff_t x = 0; x < p.n[a]; ++x)
        d.parent.push_back(std::int32_t(parent_[a][std::size_t(p.box.lower[a] + x)] - lower));
      d.share.insert(d.share.end(), p.weight[a].begin(), p.weight[a].end());
      for (std::ptrdiff_t x = 0; x < p.n[a]; ++x) d.solution.push_back(solution_share(i, int(a), x));
    }
    require(cell_items(s) <= std::numeric_limits<std::int32_t>::max() / 2, "a box of ", cell_items(s),
            " cells on a device; cut it into smaller ones");
    d.patches.push_back(s);
  }
  const auto values = [](const Field& field) { return std::vector<S>(field.data(), field.data() + field.size()); };
  if (constant_) {
    d.weight = {weights_.x, weights_.y, weights_.z};
  } else if (coefficients) {
    d.inverse = values(inverse_);
    d.faces = {values(cx_), values(cy_), values(cz_)};
  }
  if (row_sums) d.row_sums = values(inverse_row_sums());
  for (std::size_t colour = 0; colour < 2; ++colour) {
    const Ghosts& g = ghosts_[colour];
    CellCopies& c = d.ghosts[colour];
    for (const auto& [to, from] : g.local) c.own.push_back(to), c.own.push_back(from);
    c.sent.assign(g.send.begin(), g.send.end());
    for (const auto& [to, number] : g.remote) c.received.push_back(to), c.received.push_back(number);
    c.exchange = g.exchange;
  }
  return d;
}
// As interpolate_line() does it: at an end of the domain extrapolated from the two interior cells.
template <class S>
SolutionShare<S> RedBlackLevel<S>::solution_share(std::size_t patch, int axis, std::ptrdiff_t x) const {
  const auto a = std::size_t(axis);
  const Patch &p = patches_[patch], &c = coarse_->patches_[patch];
  const op::Domain &fine = a_->boxes().domain(), &domain = coarse_->a_->boxes().domain();
  const Global cell = p.box.lower[a] + x, parent = parent_[a][std::size_t(cell)];
  const double away = fine.centre(axis, cell) - domain.centre(axis, parent);
  int step = away < 0 ? -1 : 1;
  if (domain.periodic(axis) || (parent + step >= 0 && parent + step < domain.cells(axis)))
    return {std::abs(p.weight[a][std::size_t(x)]), step};
  step = -step;
  const Global place = parent - c.box.lower[a] + step;
  if (place < 0 || place >= c.n[a]) return {S(0), step};
  return {-S(std::abs(away) / domain.distance(axis, step > 0 ? parent + 1 : parent)), step};
}

template LevelData<float> RedBlackLevel<float>::device_data(bool, bool) const;
template LevelData<double> RedBlackLevel<double>::device_data(bool, bool) const;

template <class S>
std::vector<std::int64_t> RedBlackLevel<S>::places() const {
  std::vector<std::int64_t> all;
  for (const Patch& p : patches_)
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j)
        for (std::ptrdiff_t x = 1; x <= p.n[0]; ++x) all.push_back(at(p, j, k) + x % 2 * p.half + x / 2);
  return all;
}
template std::vector<std::int64_t> RedBlackLevel<float>::places() const;
template std::vector<std::int64_t> RedBlackLevel<double>::places() const;

namespace {

/// All ranks' rows, one rank's after the other.
template <class T>
op::Rows<T> rows_of_all(const op::FiniteVolume<T>& A) {
  const auto own = A.rows();
  const auto& comm = A.range().comm();
  std::vector<Global> length;
  for (Local i = 0; i < own.count(); ++i)
    length.push_back(Global(own.start[std::size_t(i) + 1] - own.start[std::size_t(i)]));
  op::Rows<T> all;
  all.start = {0};
  for (const Global l : comm.all_gather(std::span<const Global>(length))) all.start.push_back(all.start.back() + l);
  const auto columns = comm.all_gather(std::span<const Global>(own.column));
  const auto values = comm.all_gather(std::span<const T>(own.value));
  all.column.assign(columns.begin(), columns.end()), all.value.assign(values.begin(), values.end());
  return all;
}

template <class T>
BottomData<T> bottom_data(const RedBlackLevel<T>& level) {
  BottomData<T> b;
  const op::FiniteVolume<T>& A = level.A();
  b.place = level.places();
  if (A.boxes().ranks_in_use() > 1) b.shared = A.range();
  const auto rows = b.shared ? rows_of_all(A) : A.rows();
  b.n = rows.count(), b.singular = A.singular();
  for (Local i = 0; i < b.n; ++i) {
    const auto first = rows.start[std::size_t(i)], last = rows.start[std::size_t(i) + 1];
    std::int32_t others = 0;
    for (auto e = first; e < last; ++e) others += rows.column[std::size_t(e)] != i;
    b.width = std::max(b.width, others);
  }
  const auto n = std::size_t(b.n);
  b.diagonal.assign(n, T(0));
  b.column.resize(n * std::size_t(b.width)), b.value.assign(b.column.size(), T(0));
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t at = i;
    for (auto e = rows.start[i]; e < rows.start[i + 1]; ++e) {
      const auto column = rows.column[std::size_t(e)];
      if (column == Global(i)) {
        b.diagonal[i] += rows.value[std::size_t(e)];
        continue;
      }
      b.column[at] = std::int32_t(column), b.value[at] = rows.value[std::size_t(e)];
      at += n;
    }
    for (; at < b.column.size(); at += n) b.column[at] = std::int32_t(i);
  }
  return b;
}

}  // namespace

template <class T>
DeviceData<T> device_data(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options,
                          Global bottom_cells) {
  require(!A->wide(), "multigrid on a device has 3, 5 or 7 points; this operator has a wide stencil");
  require(options.cycle != Cycle::k && options.cycle != Cycle::mult_additive,
          "multigrid on a device has the cycles V, W, F and U; this one is ", to_string(options.cycle));
  require(!options.single_levels, "single_levels on a device: give it an operator in float32");
  require(options.interpolation.value_or(Interpolation::constant) <= Interpolation::linear &&
              options.restriction == Interpolation::constant,
          "multigrid on a device interpolates constantly or linearly, and restricts by sums");
  require(options.full_interpolation.value_or(Interpolation::linear) == Interpolation::linear,
          "multigrid on a device interpolates solutions linearly; full_interpolation is ",
          to_string(*options.full_interpolation));
  require(bottom_cells >= 0, "a bottom of at most ", bottom_cells, " cells; 0 or more");
  check(*A, options);
  DeviceData<T> d;
  d.cells = A->range().size(), d.singular = A->singular();
  MultigridOptions o = options;
  o.agglomerates = {};
  Hierarchy<T> hierarchy(std::move(A), o, {}, false);
  const auto red_black = [](Level<T>& level) -> const RedBlackLevel<T>& {
    return static_cast<const RedBlackLevel<T>&>(level);
  };
  const bool row_sums = options.smoother == Smoother::l1_jacobi;
  for (std::size_t i = 0;; ++i) {
    const Global cells = hierarchy.level(i).A().range().size();
    const bool last = i + 1 == hierarchy.count() || cells <= bottom_cells;
    Level<T>* const image = i > 0 ? hierarchy.image(i - 1) : nullptr;
    const auto& level = red_black(last && image ? *image : hierarchy.level(i));
    if (image && !last) {
      const auto& before = red_black(*image);
      d.levels.back().move = std::make_shared<const MoveData<T>>(MoveData<T>{
          before.device_data(false, false), hierarchy.move(i - 1)->copies(before.places(), level.places())});
    }
    d.levels.push_back(level.device_data(row_sums));
    if (!last) continue;
    require(cells <= std::numeric_limits<std::int32_t>::max() / 8, "a bottom of ", cells, " cells on a device");
    d.bottom = bottom_data(level);
    return d;
  }
}
template DeviceData<float> device_data(std::shared_ptr<const op::FiniteVolume<float>>, const MultigridOptions&, Global);
template DeviceData<double> device_data(std::shared_ptr<const op::FiniteVolume<double>>, const MultigridOptions&,
                                        Global);

}  // namespace tacit::precond::mg
