#include "lines.hpp"

#include "../recurrence_impl.hpp"

namespace tacit::op {

std::vector<double> centres(const Boxes& boxes) {
  std::vector<double> at;
  each_own(boxes, [&](std::size_t, const Cell& c) {
    for (int of = 0; of < 3; ++of) at.push_back(place(boxes.domain(), c, of, -1));
  });
  return at;
}

std::vector<double> face_centres(const Boxes& boxes, int axis) {
  std::vector<double> at;
  each_face(boxes, axis, [&](std::size_t, const Cell& c, std::size_t) {
    for (int of = 0; of < 3; ++of) at.push_back(place(boxes.domain(), c, of, axis));
  });
  return at;
}

namespace {

// The value of a field at the centre of a cell or of a face (normal >= 0), or with `average` its mean over the cell or
// face, by two Gauss points along each axis.
double mean_of(const Field& f, const Domain& d, const Cell& at, int normal, bool average) {
  double x[3], away[3] = {0, 0, 0};
  int points = 1;
  for (int a = 0; a < 3; ++a) {
    x[a] = place(d, at, a, normal);
    if (!average || a >= d.dimensions || a == normal) continue;
    away[a] = d.width(a, at[std::size_t(a)]) / (2 * std::sqrt(3.0)), points *= 2;
  }
  if (points == 1) return f(x[0], x[1], x[2]);
  double sum = 0;
  for (const double z : {-away[2], away[2]})
    for (const double y : {-away[1], away[1]})
      for (const double s : {-away[0], away[0]}) {
        // Where both Gauss points of an axis coincide, one is skipped.
        if ((away[2] == 0 && std::signbit(z)) || (away[1] == 0 && std::signbit(y)) || (away[0] == 0 && std::signbit(s)))
          continue;
        sum += f(x[0] + s, x[1] + y, x[2] + z);
      }
  return sum / points;
}

}  // namespace

template <Scalar T>
Coefficients<T> coefficients(const Boxes& boxes, double a, double b, const Field& alpha, const Field& beta,
                             CellStencil stencil) {
  Coefficients<T> c{a, b, {}, {}, stencil};
  const Domain& d = boxes.domain();
  const bool average = stencil == CellStencil::fourth_order;
  if (alpha && a != 0) {
    c.alpha.resize(std::size_t(boxes.space().local_size()));
    each_own(boxes, [&](std::size_t i, const Cell& at) { c.alpha[i] = T(mean_of(alpha, d, at, -1, average)); });
  }
  if (beta)
    for (int axis = 0; axis < d.dimensions; ++axis)
      each_face(boxes, axis, [&](std::size_t, const Cell& at, std::size_t) {
        c.beta[std::size_t(axis)].push_back(T(mean_of(beta, d, at, axis, average)));
      });
  return c;
}

template <Scalar T>
Coefficients<T> coefficients_of_cells(const Boxes& boxes, double a, double b, std::vector<T> alpha,
                                      std::span<const T> beta, Mean mean) {
  const auto& space = boxes.space();
  return comm::collective(space.comm(), [&] {
    require(beta.size() == std::size_t(space.local_size()), "beta has ", beta.size(), " values on rank ",
            space.comm().rank(), ", which owns ", space.local_size(), " cells");
    Coefficients<T> c{a, b, std::move(alpha), {}, CellStencil::seven_point};
    const Halo halo = Halo::build(boxes);
    std::vector<T> ghosts(halo.source.size());
    comm::Exchange exchange(space.comm(), halo.pattern, sizeof(T));
    const int number = exchange.open();
    pack(*halo.pattern, beta.data(), 1, exchange.outgoing(number));
    exchange.post(number);
    exchange.wait(number);
    fill_ghosts(halo, beta.data(), reinterpret_cast<const T*>(exchange.incoming(number)), 1, ghosts.data());
    exchange.close(number);
    const auto between = [mean](T one, T other) {
      return mean == Mean::arithmetic ? T(0.5) * (one + other)
             : one == other           ? one
                                      : T(2) / (T(1) / one + T(1) / other);
    };
    for (int axis = 0; axis < boxes.domain().dimensions; ++axis) {
      const std::size_t ax = std::size_t(axis);
      for (std::size_t p = 0; p < boxes.count(); ++p)
        c.beta[ax].resize(c.beta[ax].size() + face_count(boxes.own(p), axis));
      each_line_of_faces(boxes, axis, [&](std::size_t i, const Cell& at, std::size_t p, Global inner) {
        const CellBox& box = boxes.own(p);
        T* const to = c.beta[ax].data() + i;
        const T* const own = beta.data() + boxes.offset(p);
        if (inner > 0) {
          const T *const other = own + cell_place(box, at), *const one = own + cell_place(box, below(at, axis));
          for (Global x = 0; x < inner; ++x) to[x] = between(one[x], other[x]);
          return;
        }
        const auto ghost = [&](int side) { return ghost_place(halo, box, p, at, axis, side); };
        const auto value = [&](const Cell& cell, int side) {
          if (box.holds(cell)) return own[cell_place(box, cell)];
          return halo.source[ghost(side)] == Halo::nothing ? T(-1) : ghosts[ghost(side)];
        };
        T one = value(below(at, axis), 0), other = value(at, 1);
        if (at[ax] == box.lower[ax] && halo.source[ghost(0)] == Halo::nothing) one = other;
        if (at[ax] == box.upper[ax] && halo.source[ghost(1)] == Halo::nothing) other = one;
        *to = between(one, other);
      });
    }
    return c;
  });
}

/// Whether products are shared among threads.
template <Scalar T>
bool in_pieces(const FiniteVolume<T>& a) {
  return a.range().local_size() >= 1 << 15;
}

template <Scalar T>
struct FiniteVolume<T>::Parts {
  struct Coarsening;
  struct Product;
  Halo halo;
  std::map<int, std::unique_ptr<comm::Exchange>> exchanges;  // by columns
  struct Buffers {
    std::vector<T> ghosts, x, y, column;
  } buffers;

  std::shared_ptr<const comm::Pattern> pattern;  // of products: that of the halo or of a wide stencil

  comm::Exchange& exchange(const comm::Communicator& comm, int columns) {
    auto& e = exchanges[columns];
    if (!e) e = std::make_unique<comm::Exchange>(comm, pattern, sizeof(T) * std::size_t(columns));
    return *e;
  }
};

template <Scalar T>
FiniteVolume<T>::~FiniteVolume() = default;

template <Scalar T>
FiniteVolume<T>::FiniteVolume(Boxes boxes, double unit)
    : Operator<T, Host>(boxes.space(), boxes.space()),
      boxes_(std::move(boxes)),
      unit_(unit),
      parts_(std::make_unique<Parts>()) {}

template <Scalar T>
void FiniteVolume<T>::allocate(bool compact) {
  compact_ = compact;
  for (int axis = 0; axis < 3; ++axis) {
    auto& start = face_start_[std::size_t(axis)];
    start.clear();
    std::size_t at = 0;
    for (std::size_t p = 0; p < boxes_.count(); ++p) {
      start.push_back(at);
      at += compact ? std::size_t(boxes_.own(p).size(axis)) + 1 : face_count(boxes_.own(p), axis);
    }
    if (axis < boxes_.domain().dimensions) faces_[std::size_t(axis)].assign(at, T(0));
  }
}

template <Scalar T>
bool FiniteVolume<T>::check(const Coefficients<T>& c) const {
  const Domain& d = boxes_.domain();
  const int rank = this->range().comm().rank();
  const std::string no = refusal(boxes_, stencil_);
  require(no.empty(), no);
  require(std::isfinite(c.a) && std::isfinite(c.b), "a = ", c.a, ", b = ", c.b, "; finite numbers are needed");
  const auto n = std::size_t(this->range().local_size());
  require(c.alpha.empty() || c.alpha.size() == n, "alpha has ", c.alpha.size(), " values on rank ", rank,
          ", which owns ", n, " cells");
  bool constant = c.alpha.empty();
  require(constant || stencil_ != CellStencil::twenty_seven_point,
          "the 27-point stencil needs constant coefficients, and alpha was given: use fourth-order, or 7-point");
  for (int axis = 0; axis < d.dimensions; ++axis) {
    const auto& beta = c.beta[std::size_t(axis)];
    std::size_t faces = 0;
    for (std::size_t p = 0; p < boxes_.count(); ++p) faces += face_count(boxes_.own(p), axis);
    require(beta.empty() || beta.size() == faces, "beta along axis ", axis, " has ", beta.size(), " values on rank ",
            rank, ", whose boxes have ", faces, " faces");
    constant = constant && beta.empty() && d.uniform(axis);
    require(beta.empty() || stencil_ != CellStencil::twenty_seven_point,
            "the 27-point stencil needs constant coefficients, and beta was given: use fourth-order, or 7-point");
  }
  return constant;
}

template <Scalar T>
FiniteVolume<T>::FiniteVolume(Boxes boxes, const Coefficients<T>& c) : FiniteVolume(std::move(boxes), 1.0) {
  const Domain& d = boxes_.domain();
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    double all = 1, cells = 1;
    for (int a = 0; a < d.dimensions; ++a)
      all *= d.faces[std::size_t(a)].back() - d.faces[std::size_t(a)].front(), cells *= double(d.cells(a));
    unit_ = all / cells;
    b_ = c.b;
    stencil_ = c.stencil;
    const bool constant = comm.all(check(c));
    allocate(constant && stencil_ == CellStencil::seven_point && boxes_.is_whole());
    if (compact_) set_lines(c.a);
    else set_coefficients(c);
    complete(constant);
  });
}

template <Scalar T>
void FiniteVolume<T>::set_lines(double a) {
  const Domain& d = boxes_.domain();
  if (a != 0) mass_.assign(1, T(a * (volume(d, Cell{}) / unit_)));
  for (int axis = 0; axis < d.dimensions; ++axis)
    for (std::size_t p = 0; p < boxes_.count(); ++p) {
      const CellBox& b = boxes_.own(p);
      const auto ax = std::size_t(axis);
      T* to = faces_[ax].data() + face_start_[ax][p];
      for (Cell at = b.lower; at[ax] <= b.upper[ax]; ++at[ax], ++to) {
        const Kind kind = kind_of(boxes_, b, at, axis);
        if (kind == Kind::flux || kind == Kind::none) continue;
        *to = T(b_ * face_area(d, Cell{}, axis) / (face_distance(boxes_, b, at, axis, kind) * unit_));
      }
    }
}

template <Scalar T>
void FiniteVolume<T>::set_coefficients(const Coefficients<T>& c) {
  const Domain& d = boxes_.domain();
  for (int axis = 0; axis < d.dimensions; ++axis) {
    const auto ax = std::size_t(axis);
    const T* const beta = c.beta[ax].empty() ? nullptr : c.beta[ax].data();
    each_line_of_faces(boxes_, axis, [&](std::size_t i, const Cell& at, std::size_t p, Global inner) {
      const CellBox& b = boxes_.own(p);
      const Kind kind = inner > 0 ? Kind::inner : kind_of(boxes_, b, at, axis);
      if (kind == Kind::flux || kind == Kind::none) return;
      T* const to = faces_[ax].data() + i;
      Cell x = at;
      for (Global k = 0; k < std::max<Global>(1, inner); ++k, ++x[0])
        to[k] = T(c.b * (beta ? double(beta[i + std::size_t(k)]) : 1.0) * face_area(d, x, axis) /
                  (face_distance(boxes_, b, x, axis, kind) * unit_));
    });
  }
  if (c.a == 0) return;
  mass_.resize(std::size_t(this->range().local_size()));
  each_own(boxes_, [&](std::size_t i, const Cell& at) {
    mass_[i] = T(c.a * (c.alpha.empty() ? 1.0 : double(c.alpha[i])) * (volume(d, at) / unit_));
  });
}

template <Scalar T>
void FiniteVolume<T>::complete(bool constant) {
  const auto& comm = this->range().comm();
  parts_->halo = Halo::build(boxes_);
  parts_->pattern = parts_->halo.pattern;
  set_diagonal();
  const bool value_somewhere = has_given_value();
  constant_ = comm.all(constant);
  if (stencil_ != CellStencil::seven_point) make_wide();
  find_extremes();
  const bool any_mass = std::any_of(mass_.begin(), mass_.end(), [](T m) { return m != T(0); });
  singular_ = comm.all(!value_somewhere && !any_mass);
  made_ = checksum();
}

template <Scalar T>
void FiniteVolume<T>::set_diagonal() {
  std::size_t cells = std::size_t(this->range().local_size());
  if (compact_) {
    cells = 0;
    for (std::size_t p = 0; p < boxes_.count(); ++p) cells += std::size_t(boxes_.own(p).size(0));
  }
  diagonal_.resize(cells);
  const int dimensions = boxes_.domain().dimensions;
  T* d = diagonal_.data();
  for (std::size_t p = 0; p < boxes_.count(); ++p) {
    const CellBox& b = boxes_.own(p);
    const Global nx = b.size(0), ny = compact_ ? 1 : b.size(1), nz = compact_ ? 1 : b.size(2);
    const T* const face[3] = {stored_faces(0, p), stored_faces(1, p), stored_faces(2, p)};
    const T* mass = mass_.empty() || compact_ ? nullptr : mass_.data() + boxes_.offset(p);
    const T every = mass_.empty() || !compact_ ? T(0) : mass_[0];
    for (Global l = 0; l < nz; ++l)
      for (Global j = 0; j < ny; ++j, d += nx) {
        const T* const x = face[0] + (nx + 1) * (j + ny * l);
        for (Global i = 0; i < nx; ++i) d[i] = (mass ? mass[i] : every) + (x[i] + x[i + 1]);
        for (int axis = 1; axis < dimensions && !compact_; ++axis) {
          const T* const low = face[axis] + nx * (j + (axis == 1 ? ny + 1 : ny) * l);
          const T* const high = low + (axis == 1 ? nx : nx * ny);
          for (Global i = 0; i < nx; ++i) d[i] += low[i] + high[i];
        }
        if (mass) mass += nx;
      }
  }
}

/// Whether there is a coupling to a given value on this rank.
template <Scalar T>
bool FiniteVolume<T>::has_given_value() const {
  for (std::size_t p = 0; p < boxes_.count(); ++p)
    for (int axis = 0; axis < boxes_.domain().dimensions; ++axis)
      for (int side = 0; side < 2; ++side) {
        const auto ax = std::size_t(axis), u = std::size_t(axis == 0), v = std::size_t(axis == 2 ? 1 : 2);
        CellBox layer = boxes_.own(p);
        layer.lower[ax] = side ? layer.upper[ax] - 1 : layer.lower[ax];
        Cell c = layer.lower;
        for (c[v] = layer.lower[v]; c[v] < layer.upper[v]; ++c[v])
          for (c[u] = layer.lower[u]; c[u] < layer.upper[u]; ++c[u]) {
            Cell above = c;
            above[ax] += side;
            if (face(axis, p, c, side) != T(0) && kind_of(boxes_, above, axis) == Kind::value) return true;
            if (compact_) c[u] = layer.upper[u], c[v] = layer.upper[v];  // the others are the same
          }
      }
  return false;
}

template <Scalar T>
void FiniteVolume<T>::find_extremes() {
  const auto& comm = this->range().comm();
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool finite = true;
  const auto add = [&](T v) {
    finite = finite && is_finite(v);
    low = std::min(low, double(v)), high = std::max(high, double(v));
  };
  if (!compact_) {
    for (const T v : diagonal_) add(v);
  } else {  // rounding keeps the order of sums
    for (std::size_t p = 0; p < boxes_.count(); ++p)
      for (const bool most : {false, true}) {
        const auto extreme = [&](const T* v, Global n, const T* beside) {
          T found = v[0] + (beside ? beside[0] : T(0));
          for (Global i = 0; i < n; ++i) {
            const T sum = beside ? v[i] + beside[i] : v[i];
            found = most ? std::max(found, sum) : std::min(found, sum);
            finite = finite && is_finite(sum);
          }
          return found;
        };
        T sum = extreme(diagonal_line(p), boxes_.own(p).size(0), nullptr);
        for (int axis = 1; axis < boxes_.domain().dimensions; ++axis)
          sum += extreme(stored_faces(axis, p), boxes_.own(p).size(axis), stored_faces(axis, p) + 1);
        add(sum);
      }
  }
  smallest_ = low;
  largest_ = comm.all_max(high >= low ? std::max(std::abs(low), std::abs(high)) : 0.0);
  Global first_bad = std::numeric_limits<Global>::max();
  if (!finite) {
    const auto all = diagonal();
    const auto bad = std::find_if(all.begin(), all.end(), [](T v) { return !is_finite(v); });
    if (bad != all.end()) first_bad = this->range().begin() + Global(bad - all.begin());
  }
  first_bad = comm.all_min(first_bad);
  if (first_bad != std::numeric_limits<Global>::max())
    fault_ = message("the finite volume operator has a coefficient that is not finite at cell ", first_bad);
}

template <Scalar T>
std::vector<T> FiniteVolume<T>::diagonal() const {
  std::vector<T> all;
  const auto found = diagonal(all);
  if (all.empty()) all.assign(found.begin(), found.end());
  return all;
}

template <Scalar T>
std::span<const T> FiniteVolume<T>::diagonal(std::vector<T>& room) const {
  if (!compact_) return diagonal_;
  room.resize(std::size_t(this->range().local_size()));
  T* to = room.data();
  const int dimensions = boxes_.domain().dimensions;
  for (std::size_t p = 0; p < boxes_.count(); ++p) {
    const CellBox& b = boxes_.own(p);
    const T *const line = diagonal_line(p), *const y = stored_faces(1, p), *const z = stored_faces(2, p);
    for (Global l = 0; l < b.size(2); ++l)
      for (Global j = 0; j < b.size(1); ++j, to += b.size(0))
        for (Global i = 0; i < b.size(0); ++i) {
          to[i] = line[i];
          if (dimensions > 1) to[i] += y[j] + y[j + 1];
          if (dimensions > 2) to[i] += z[l] + z[l + 1];
        }
  }
  return room;
}

template <Scalar T>
std::span<const T> FiniteVolume<T>::faces(int axis, std::size_t patch, std::vector<T>& room) const {
  const T* const stored = stored_faces(axis, patch);
  const CellBox& b = boxes_.own(patch);
  const std::size_t count = stored ? face_count(b, axis) : 0;
  if (!compact_ || !stored) return {stored, count};
  room.resize(count);
  T* to = room.data();
  const auto n = face_counts(b, axis);
  Cell c{};
  for (c[2] = 0; c[2] < n[2]; ++c[2])
    for (c[1] = 0; c[1] < n[1]; ++c[1])
      for (c[0] = 0; c[0] < n[0]; ++c[0]) *to++ = stored[c[std::size_t(axis)]];
  return room;
}

template <Scalar T>
T FiniteVolume<T>::face(int axis, std::size_t patch, const Cell& cell, int side) const {
  const CellBox& b = boxes_.own(patch);
  const auto ax = std::size_t(axis);
  return stored_faces(
      axis,
      patch)[compact_ ? std::size_t(cell[ax] - b.lower[ax]) + std::size_t(side) : face_place(b, cell, axis, side)];
}

template <Scalar T>
void FiniteVolume<T>::expand() {
  if (!compact_) return;
  std::array<exec::Buffer<T>, 3> all;
  std::vector<T> room;
  for (int axis = 0; axis < boxes_.domain().dimensions; ++axis)
    for (std::size_t p = 0; p < boxes_.count(); ++p) {
      const auto of_patch = faces(axis, p, room);
      all[std::size_t(axis)].insert(all[std::size_t(axis)].end(), of_patch.begin(), of_patch.end());
    }
  const auto diagonal = this->diagonal();
  diagonal_.assign(diagonal.begin(), diagonal.end());
  if (!mass_.empty()) mass_.assign(diagonal_.size(), T(mass_[0]));
  allocate(false);
  faces_ = std::move(all);
  made_ = checksum();
}

template <Scalar T>
std::uint64_t FiniteVolume<T>::checksum() const {
  exec::Checksum sum;
  for (const auto& faces : faces_) sum.add(faces);
  for (const auto& start : face_start_) sum.add(start);
  sum.add(mass_).add(diagonal_);
  if (wide_) wide_->add_to(sum);
  return sum.value();
}

template <Scalar T>
void FiniteVolume<T>::make_wide() {
  typename Wide<T>::Terms terms;
  terms.stencil = stencil_;
  const Domain& d = boxes_.domain();
  double volume = 1;
  for (int a = 0; a < d.dimensions; ++a) volume *= d.width(a, 0);
  for (int a = 0; a < d.dimensions; ++a)
    terms.weight[std::size_t(a)] = b_ * volume / (unit_ * d.width(a, 0) * d.width(a, 0));
  if (constant_) {
    terms.mass = mass_.empty() ? 0 : double(mass_[0]);
  } else {
    terms.masses = std::span<const T>(mass_);
    terms.faces = [this](int axis, std::size_t patch) { return stored_faces(axis, patch); };
  }
  // All ranks agree whether there are masses: a rank without cells has none but takes part in their exchange.
  wide_ = std::make_unique<Wide<T>>(boxes_, terms, this->range().comm().all_max(Global(!terms.masses.empty())) > 0);
  const auto diagonal = wide_->diagonal();
  diagonal_.assign(diagonal.begin(), diagonal.end());
  parts_->pattern = wide_->margin().pattern();
}

template <Scalar T>
bool FiniteVolume<T>::is_symmetric() const {
  if (stencil_ != CellStencil::fourth_order) return true;
  bool periodic = true;
  for (int a = 0; a < boxes_.domain().dimensions; ++a) periodic = periodic && boxes_.domain().periodic(a);
  return constant_ && periodic;
}

template <Scalar T>
const T* FiniteVolume<T>::stored_faces(int axis, std::size_t patch) const {
  const auto ax = std::size_t(axis);
  return faces_[ax].empty() ? nullptr : faces_[ax].data() + face_start_[ax][patch];
}

template <Scalar T>
std::vector<T> FiniteVolume<T>::volumes() const {
  std::vector<T> v(std::size_t(this->range().local_size()));
  each_own(boxes_, [&](std::size_t i, const Cell& c) { v[i] = T(volume(boxes_.domain(), c) / unit_); });
  return v;
}

template <Scalar T>
std::vector<T> FiniteVolume<T>::sampled(const Field& f) const {
  auto v = volumes();
  const bool average = stencil_ == CellStencil::fourth_order;
  each_own(boxes_, [&](std::size_t i, const Cell& c) { v[i] *= T(mean_of(f, boxes_.domain(), c, -1, average)); });
  return v;
}

namespace {

// The mean of a field over a face at an end of the domain; beyond the domain's other ends, by cubic extrapolation from
// the four nearest faces.
double mean_at_end(const Field& f, const Domain& d, int axis, int side, const Cell& cell) {
  std::vector<std::pair<Cell, double>> terms{{cell, 1.0}};
  for (int t = 0; t < d.dimensions; ++t) {
    const Global n = d.cells(t);
    std::vector<std::pair<Cell, double>> next;
    for (auto [c, w] : terms) {
      Global& i = c[std::size_t(t)];
      if (t == axis) {
        i = side ? n : 0;
        next.emplace_back(c, w);
      } else if (d.periodic(t) || (i >= 0 && i < n)) {
        i = (i % n + n) % n;
        next.emplace_back(c, w);
      } else {
        std::vector<double> from(std::size_t(std::min<Global>(4, n)) + 1);
        for (std::size_t k = 0; k < from.size(); ++k) from[k] = double(k);
        const double beyond = double(i < 0 ? -1 - i : i - n);
        const bool low = i < 0;
        const auto weights = average_weights(from, Given::nothing, 0, -beyond - 1, -beyond);
        for (std::size_t k = 0; k < weights.size(); ++k) {
          i = low ? Global(k) : n - 1 - Global(k);
          next.emplace_back(c, w * weights[k]);
        }
      }
    }
    terms = std::move(next);
  }
  double sum = 0;
  for (const auto& [c, w] : terms) sum += w * mean_of(f, d, c, axis, true);
  return sum;
}

}  // namespace

template <Scalar T>
std::vector<T> FiniteVolume<T>::boundary_terms(const Field& value, const Field& flux) const {
  const Domain& d = boxes_.domain();
  if (wide_)
    return wide_->end_terms([&](int axis, int side, const Cell& cell) {
      const bool given = d.boundary[std::size_t(axis)][std::size_t(side)] == Boundary::dirichlet;
      const Field& f = given ? value : flux;
      const double g = f ? mean_at_end(f, d, axis, side, cell) : 0.0;
      require(given || g == 0 || constant_, "a flux through a Neumann end, ", g, " at axis ", axis,
              ", is possible in the fourth-order stencil with constant coefficients only: use the 7-point one");
      return g;
    });
  std::vector<T> terms(std::size_t(this->range().local_size()), T(0));
  for (int axis = 0; axis < d.dimensions; ++axis) {
    const auto ax = std::size_t(axis);
    each_face(boxes_, axis, [&](std::size_t, const Cell& at, std::size_t p) {
      const CellBox& b = boxes_.own(p);
      if (at[ax] != b.lower[ax] && at[ax] != b.upper[ax]) return;
      const Kind kind = kind_of(boxes_, at, axis);
      if (kind == Kind::inner || kind == Kind::none || !(kind == Kind::value ? value : flux)) return;
      const double g =
          (kind == Kind::value ? value : flux)(place(d, at, 0, axis), place(d, at, 1, axis), place(d, at, 2, axis));
      const Cell in = at[ax] == b.lower[ax] ? at : below(at, axis);
      const std::size_t to = std::size_t(boxes_.offset(p)) + cell_place(b, in);
      terms[to] +=
          kind == Kind::value ? T(double(face(axis, p, at, 0)) * g) : T(b_ * g * face_area(d, at, axis) / unit_);
    });
  }
  return terms;
}

template <Scalar T>
Rows<T> FiniteVolume<T>::rows() const {
  Rows<T> r;
  const auto diagonal = this->diagonal();
  for (std::size_t p = 0; p < boxes_.count(); ++p) {
    const CellBox& b = boxes_.own(p);
    each_own(boxes_, p, [&](std::size_t i, const Cell& c) {
      std::map<Global, T> row;
      if (wide_) {
        for (const auto& [cell, v] : wide_->row(p, c[0] - b.lower[0], c[1] - b.lower[1], c[2] - b.lower[2]))
          row[boxes_.index(cell)] += T(v);
      } else {
        row[this->range().begin() + Global(i)] = diagonal[i];
        for (int axis = 0; axis < boxes_.domain().dimensions; ++axis)
          for (int side = 0; side < 2; ++side) {
            Cell at = c;
            at[std::size_t(axis)] += side ? 1 : -1;
            const Global j = boxes_.index(at);
            if (j >= 0) row[j] -= face(axis, p, c, side);
          }
      }
      for (const auto& [j, v] : row) r.column.push_back(j), r.value.push_back(v);
      r.start.push_back(Global(r.column.size()));
    });
  }
  return r;
}

template <Scalar T>
std::vector<T> FiniteVolume<T>::faces_beside() const {
  const int dimensions = boxes_.domain().dimensions;
  const auto width = std::size_t(2 * dimensions);
  const Halo& halo = parts_->halo;
  std::vector<T> ghosts(halo.source.size() * width, T(0));
  const auto put = [&](Local cell, T* to) {
    std::size_t p = boxes_.count() - 1;
    while (cell < boxes_.offset(p)) --p;
    const CellBox& b = boxes_.own(p);
    const Global in = cell - boxes_.offset(p);
    const Cell c{b.lower[0] + in % b.size(0), b.lower[1] + in / b.size(0) % b.size(1),
                 b.lower[2] + in / (b.size(0) * b.size(1))};
    for (int axis = 0; axis < dimensions; ++axis)
      for (int side = 0; side < 2; ++side) *to++ = face(axis, p, c, side);
  };
  comm::Exchange exchange(this->range().comm(), halo.pattern, width * sizeof(T));
  const int number = exchange.open();
  T* out = reinterpret_cast<T*>(exchange.outgoing(number));
  for (const Local cell : halo.pattern->send_index) put(cell, out), out += width;
  exchange.post(number);
  for (std::size_t i = 0; i < halo.source.size(); ++i)
    if (halo.source[i] >= 0) put(halo.source[i], ghosts.data() + i * width);
  exchange.wait(number);
  const T* const remote = reinterpret_cast<const T*>(exchange.incoming(number));
  for (std::size_t i = 0; i < halo.source.size(); ++i)
    if (const Local source = halo.source[i]; source < 0 && source != Halo::nothing)
      std::copy_n(remote + std::size_t(Halo::ghost(source)) * width, width, ghosts.data() + i * width);
  exchange.close(number);
  return ghosts;
}

/// The coefficients of a coarser operator.
template <Scalar T>
struct FiniteVolume<T>::Parts::Coarsening {
  const FiniteVolume& fine;
  FiniteVolume& coarse;
  const std::array<std::vector<Local>, 3>& parent;
  std::vector<T> ghosts{};  // coefficients of the faces of ghost cells, for series conductances
  bool series = false;

  Global up(int axis, Global i) const { return Global(parent[std::size_t(axis)][std::size_t(i)]); }

  /// Whether a wide stencil is kept.
  bool keeps_stencil() const {
    const Domain &f = fine.boxes_.domain(), &c = coarse.boxes_.domain();
    bool keeps = fine.wide_ && refusal(coarse.boxes_, fine.stencil_).empty();
    for (int a = 0; a < f.dimensions && keeps; ++a) {
      const Global n = c.cells(a);
      keeps = (2 * n == f.cells(a) || n == f.cells(a)) && (n >= 4 || f.periodic(a));
    }
    return keeps;
  }

  /// The distance of cell i's centre from that of its coarse cell; 0 where there is no resistance to count: they
  /// coincide, or the cell on the other side is not in the same coarse cell.
  double away_from_coarse(Global i, int axis, int side) const {
    const Domain& d = fine.boxes_.domain();
    const Global coarse_cell = up(axis, i), beyond = side ? i + 1 : i - 1;
    const double away = std::abs(d.centre(axis, i) - coarse.boxes_.domain().centre(axis, coarse_cell));
    if (beyond < 0 || beyond >= d.cells(axis) || up(axis, beyond) != coarse_cell || away < 1e-9 * d.width(axis, i))
      return 0.0;
    return away;
  }

  /// The resistance between the centre of a cell and that of its coarse cell, from the coefficient of the face between
  /// them: its contribution to the series resistance across the cell's opposite face.
  double resistance(std::size_t p, const Cell& cell, int axis, int side) const {
    const Domain& d = fine.boxes_.domain();
    const auto ax = std::size_t(axis);
    const Global n = d.cells(axis), i = (cell[ax] + n) % n;
    const double away = away_from_coarse(i, axis, side);
    if (away == 0) return 0.0;
    const CellBox& b = fine.boxes_.own(p);
    const T c = b.holds(cell)
                    ? fine.face(axis, p, cell, side)
                    : ghosts[ghost_place(fine.parts_->halo, b, p, cell, axis, side) * std::size_t(2 * d.dimensions) +
                             2 * ax + std::size_t(side)];
    return away / (d.distance(axis, side ? i + 1 : i) * double(c));
  }

  void add_masses(std::size_t p) const {
    const CellBox& b = coarse.boxes_.own(p);
    if (coarse.compact_) {
      coarse.mass_[0] = T(0);
      for (Global all = children(p, 0) * children(p, 1) * children(p, 2); all > 0; --all)
        coarse.mass_[0] += fine.mass_[0];
      return;
    }
    const auto first = std::size_t(coarse.boxes_.offset(p));
    const CellBox& own = fine.boxes_.own(p);
    auto i = std::size_t(fine.boxes_.offset(p));
    for (Global z = own.lower[2]; z < own.upper[2]; ++z)
      for (Global y = own.lower[1]; y < own.upper[1]; ++y) {
        T* const line = coarse.mass_.data() + first + cell_place(b, {b.lower[0], up(1, y), up(2, z)});
        for (Global x = own.lower[0]; x < own.upper[0]; ++x, ++i) line[up(0, x) - b.lower[0]] += fine.mass(i);
      }
  }

  /// The cells along an axis that the first coarse cell of a patch has.
  Global children(std::size_t p, int axis) const {
    const auto ax = std::size_t(axis);
    const CellBox& b = fine.boxes_.own(p);
    Global count = 1;
    while (b.lower[ax] + count < b.upper[ax] && up(axis, b.lower[ax] + count) == up(axis, b.lower[ax])) ++count;
    return count;
  }

  void add_faces(std::size_t p, int axis) const {
    const auto ax = std::size_t(axis);
    const CellBox& b = fine.boxes_.own(p);
    if (coarse.compact_) {
      Global beside = 1;  // fine faces on a coarse one
      for (int o = 0; o < 3; ++o) beside *= o == axis ? 1 : children(p, o);
      for (Cell at = b.lower; at[ax] <= b.upper[ax]; ++at[ax])
        add_face(p, axis, at, double(fine.face(axis, p, at, 0)), beside);
      return;
    }
    std::vector<T> room;
    const T* const from = fine.faces(axis, p, room).data();
    const auto n = face_counts(b, axis);
    const Global stride = axis == 0 ? 1 : axis == 1 ? n[0] : n[0] * n[1];
    const auto rules = rules_of(p, axis);
    const T* line = from;
    for (Global z = 0; z < n[2]; ++z)
      for (Global y = 0; y < n[1]; ++y, line += n[0]) {
        const Cell at{b.lower[0], b.lower[1] + y, b.lower[2] + z};
        const Global k = at[ax] - b.lower[ax];
        if (axis != 0 && (k == 0 || k + 1 == n[ax])) {
          for (Global x = 0; x < n[0]; ++x) add_face(p, axis, {at[0] + x, at[1], at[2]}, double(line[x]), 1);
        } else if (axis != 0) {
          if (!rules[std::size_t(k)].skipped) add_line(p, axis, at, line, n[0], stride, &rules[std::size_t(k)], 0);
        } else {
          for (const Global x : {Global(0), n[0] - 1}) add_face(p, axis, {at[0] + x, at[1], at[2]}, double(line[x]), 1);
          add_line(p, axis, {at[0] + 1, at[1], at[2]}, line + 1, n[0] - 2, stride, &rules[1], 1);
        }
      }
  }

  /// What becomes of a face between two cells of a patch, by its place along its axis.
  struct Rule {
    bool skipped;     // inside of a coarse cell
    double nearer;    // the fine distance of centres over the coarse one
    double away[2];   // of the two cells' centres from those of their coarse cells; 0 where there is no resistance
    double apart[2];  // distances of centres across these cells' opposite faces
  };
  std::vector<Rule> rules_of(std::size_t p, int axis) const {
    const auto ax = std::size_t(axis);
    const Domain &d = fine.boxes_.domain(), &cd = coarse.boxes_.domain();
    const CellBox& b = fine.boxes_.own(p);
    std::vector<Rule> rules(std::size_t(b.size(axis)) + 1, Rule{true, 0, {0, 0}, {0, 0}});
    for (Global k = b.lower[ax] + 1; k < b.upper[ax]; ++k) {
      Rule& rule = rules[std::size_t(k - b.lower[ax])];
      rule.skipped = up(axis, k) == up(axis, k - 1);
      if (rule.skipped) continue;
      rule.nearer = d.distance(axis, k) / cd.distance(axis, up(axis, k));
      for (int side = 0; side < 2; ++side) {
        const Global i = side ? k : k - 1;
        rule.away[side] = away_from_coarse(i, axis, side);
        rule.apart[side] = d.distance(axis, side ? i + 1 : i);
      }
    }
    return rules;
  }

  /// Adds `count` faces of a line, of which the first is `from` and below cell `at`; face x has rule[along * x].
  void add_line(std::size_t p, int axis, const Cell& at, const T* from, Global count, Global stride, const Rule* rule,
                Global along) const {
    const CellBox& cb = coarse.boxes_.own(p);
    T* const line = coarse.faces_[std::size_t(axis)].data() + coarse.face_start_[std::size_t(axis)][p] +
                    face_place(cb, {cb.lower[0], up(1, at[1]), up(2, at[2])}, axis, 0);
    const Local* const to = parent[0].data() + at[0];
    for (Global x = 0; x < count; ++x) {
      const Rule& r = rule[along * x];
      if (r.skipped) continue;
      const double one = double(from[x]);
      double value = one * r.nearer;
      if (series && one > 0) {
        double all = 1 / one;
        if (r.away[0] > 0) all += r.away[0] / (r.apart[0] * double(from[x - stride]));
        if (r.away[1] > 0) all += r.away[1] / (r.apart[1] * double(from[x + stride]));
        value = std::max(value, 1 / all);
      }
      line[Global(to[x]) - cb.lower[0]] += T(value);
    }
  }

  /// Adds the face below cell `at`, whose coefficient is `one`, to the coarse face that it is on, so many times.
  void add_face(std::size_t p, int axis, const Cell& at, double one, Global times) const {
    const auto ax = std::size_t(axis);
    const CellBox &b = fine.boxes_.own(p), &cb = coarse.boxes_.own(p);
    // Faces inside of a coarse cell are skipped.
    const Global k = at[ax];
    const bool end = k == b.lower[ax] || k == b.upper[ax];
    if (!end && up(axis, k) == up(axis, k - 1)) return;
    Cell c{};
    for (int a = 0; a < 3; ++a) {
      const auto u = std::size_t(a);
      c[u] = a == axis && k == b.upper[ax] ? cb.upper[u] : up(a, at[u]);
    }
    const Kind kind = end ? kind_of(coarse.boxes_, cb, c, axis) : Kind::inner;
    if (kind == Kind::flux || kind == Kind::none) return;
    double value =
        one * (face_distance(fine.boxes_, b, at, axis, kind) / face_distance(coarse.boxes_, cb, c, axis, kind));
    if (series && one > 0) {
      double all = 1 / one;
      if (kind == Kind::inner || k == b.upper[ax]) all += resistance(p, below(at, axis), axis, 0);
      if (kind == Kind::inner || k == b.lower[ax]) all += resistance(p, at, axis, 1);
      value = std::max(value, 1 / all);
    }
    T& to = coarse.faces_[ax][coarse.face_start_[ax][p] +
                              (coarse.compact_ ? std::size_t(c[ax] - cb.lower[ax]) : face_place(cb, c, axis, 0))];
    for (; times > 0; --times) to += T(value);
  }
};

template <Scalar T>
std::unique_ptr<FiniteVolume<T>> FiniteVolume<T>::coarsened(Boxes coarse,
                                                            const std::array<std::vector<Local>, 3>& parent) const {
  return comm::collective(this->range().comm(), [&] {
    require(coarse.count() == boxes_.count(), "coarse boxes in ", coarse.count(), " patches for ", boxes_.count());
    auto made = std::unique_ptr<FiniteVolume>(new FiniteVolume(std::move(coarse), unit_));
    FiniteVolume& m = *made;
    m.b_ = b_;
    bool constant = constant_;
    for (int axis = 0; axis < boxes_.domain().dimensions; ++axis)
      constant = constant && m.boxes_.domain().uniform(axis);
    m.allocate(compact_ && constant);
    typename Parts::Coarsening rule{*this, m, parent};
    if (rule.keeps_stencil()) m.stencil_ = stencil_;
    else rule.series = !constant_;
    if (!mass_.empty()) m.mass_.assign(m.compact_ ? 1 : std::size_t(m.range().local_size()), T(0));
    if (!constant_) rule.ghosts = faces_beside();
    for (std::size_t p = 0; p < boxes_.count(); ++p) {
      if (!mass_.empty()) rule.add_masses(p);
      for (int axis = 0; axis < boxes_.domain().dimensions; ++axis) rule.add_faces(p, axis);
    }
    m.complete(constant);
    return made;
  });
}

template <Scalar T>
std::unique_ptr<FiniteVolume<T>> FiniteVolume<T>::moved(Boxes to) const {
  const auto& comm = this->range().comm();
  return comm::collective(comm, [&] {
    auto made = std::unique_ptr<FiniteVolume>(new FiniteVolume(std::move(to), unit_));
    FiniteVolume& m = *made;
    m.b_ = b_, m.stencil_ = stencil_;
    m.allocate(false);
    const int dimensions = boxes_.domain().dimensions;
    // For each cell, its mass and six coefficients.
    constexpr std::size_t k = 7;
    const auto of_face = [](int axis, int side) { return 1 + 2 * std::size_t(axis) + std::size_t(side); };
    std::vector<T> own(std::size_t(this->range().local_size()) * k, T(0));
    for (std::size_t p = 0; p < boxes_.count(); ++p)
      each_own(boxes_, p, [&](std::size_t i, const Cell& c) {
        if (!mass_.empty()) own[i * k] = mass(i);
        for (int axis = 0; axis < dimensions; ++axis)
          for (int side = 0; side < 2; ++side) own[i * k + of_face(axis, side)] = face(axis, p, c, side);
      });
    std::vector<Global> needed;
    each_own(m.boxes_, [&](std::size_t, const Cell& c) {
      const Global at = boxes_.index(c);
      if (at < this->range().begin() || at >= this->range().end()) needed.push_back(at);
    });
    std::sort(needed.begin(), needed.end());
    const auto pattern =
        std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, this->range().partition().offsets(), needed));
    comm::Exchange exchange(comm, pattern, sizeof(T) * k);
    const int number = exchange.open();
    pack(*pattern, own.data(), int(k), exchange.outgoing(number));
    exchange.post(number);
    exchange.wait(number);
    const T* const remote = reinterpret_cast<const T*>(exchange.incoming(number));
    const bool has_mass = comm.all_max(Global(!mass_.empty())) > 0;
    if (has_mass) m.mass_.resize(std::size_t(m.range().local_size()));
    for (std::size_t p = 0; p < m.boxes_.count(); ++p)
      each_own(m.boxes_, p, [&](std::size_t i, const Cell& c) {
        const Global at = boxes_.index(c);
        const bool here = at >= this->range().begin() && at < this->range().end();
        const T* const from =
            here ? own.data() + std::size_t(at - this->range().begin()) * k
                 : remote + std::size_t(std::lower_bound(needed.begin(), needed.end(), at) - needed.begin()) * k;
        if (has_mass) m.mass_[i] = from[0];
        for (int axis = 0; axis < dimensions; ++axis)
          for (int side = 0; side < 2; ++side)
            m.faces_[std::size_t(axis)][m.face_start_[std::size_t(axis)][p] +
                                        face_place(m.boxes_.own(p), c, axis, side)] = from[of_face(axis, side)];
      });
    exchange.close(number);
    m.complete(constant_);
    return made;
  });
}

template <Scalar T>
std::unique_ptr<FiniteVolume<T>> FiniteVolume<T>::alone() const {
  if (Global(this->range().local_size()) != this->range().size() || this->range().size() == 0) return nullptr;
  const std::vector<int> owners(boxes_.patches().size(), 0);
  auto made = std::unique_ptr<FiniteVolume>(
      new FiniteVolume(Boxes(comm::Communicator::self(), boxes_.domain(), boxes_.patches(), owners), unit_));
  made->allocate(compact_);
  made->b_ = b_, made->stencil_ = stencil_, made->mass_ = mass_, made->faces_ = faces_;
  made->complete(constant_);
  return made;
}

template <Scalar T>
template <Scalar S>
std::unique_ptr<FiniteVolume<S>> FiniteVolume<T>::cast() const {
  return comm::collective(this->range().comm(), [&] {
    auto made = std::unique_ptr<FiniteVolume<S>>(new FiniteVolume<S>(boxes_, unit_));
    made->allocate(compact_);
    made->b_ = b_, made->stencil_ = stencil_;
    made->mass_.assign(mass_.begin(), mass_.end());
    for (std::size_t a = 0; a < 3; ++a) made->faces_[a].assign(faces_[a].begin(), faces_[a].end());
    made->complete(constant_);
    return made;
  });
}

template <Scalar T>
std::shared_ptr<const Operator<in_double_t<T>, Host>> FiniteVolume<T>::in_double() const {
  if constexpr (std::same_as<T, float>) {
    std::shared_ptr<FiniteVolume<double>> wider = cast<double>();
    if (!wide_) {  // the rounded sums, with which products are computed
      wider->expand();
      const auto rounded = diagonal();
      wider->diagonal_.assign(rounded.begin(), rounded.end());
      wider->made_ = wider->checksum();
    }
    return wider;
  } else {
    return nullptr;
  }
}

template <Scalar T>
int FiniteVolume<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool) const {
  if (this->range().comm().size() == 1) return -1;
  auto& e = parts_->exchange(this->range().comm(), x.columns());
  const int number = e.open();
  pack(*parts_->pattern, x.data(), x.columns(), e.outgoing(number));
  e.post(number);
  return number;
}

template <Scalar T>
void FiniteVolume<T>::abandon(int token) const noexcept {
  for (auto& [columns, e] : parts_->exchanges)
    if (token >= 0) e->abandon(token);
}

template <Scalar T>
void FiniteVolume<T>::finish_wide(const Vector<T, Host>& x, Vector<T, Host>& y, int token) const {
  const auto& margin = wide_->margin();
  const auto k = std::size_t(x.columns());
  auto& padded = parts_->buffers.x;
  padded.resize(margin.size());
  comm::Exchange* e = nullptr;
  const T* remote = nullptr;
  if (token >= 0) {
    e = &parts_->exchange(this->range().comm(), int(k));
    e->wait(token);
    remote = reinterpret_cast<const T*>(e->incoming(token));
  }
  const bool parallel = in_pieces(*this);
  for (std::size_t c = 0; c < k; ++c) {
    margin.load(x.data() + c, padded.data(), k);
    margin.place(remote + (remote ? c : 0), padded.data(), k);
    wide_->fill_ends(padded.data());
    for (std::size_t p = 0; p < boxes_.count(); ++p) {
      const CellBox& b = boxes_.own(p);
      const std::ptrdiff_t nx = b.size(0), ny = b.size(1);
      T* const to = y.data() + std::size_t(boxes_.offset(p)) * k + c;
      exec::each(std::size_t(b.size(2)), parallel, [&](std::size_t z) {
        std::vector<T> line(k > 1 ? std::size_t(nx) : 0);
        for (std::ptrdiff_t j = 0; j < ny; ++j) {
          T* const out = to + std::size_t(nx * (j + ny * std::ptrdiff_t(z))) * k;
          wide_->line(padded.data(), p, j, std::ptrdiff_t(z), k > 1 ? line.data() : out);
          for (std::size_t i = 0; i < line.size(); ++i) out[i * k] = line[i];
        }
      });
    }
  }
  if (e) e->close(token);
  if (Trace::on()) Trace::work("product", double(k) * cost().bytes, double(k) * cost().flops);
}

template <Scalar T>
void FiniteVolume<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool, int token) const {
  product(x, y, token, nullptr, nullptr);
}

template <Scalar T>
void FiniteVolume<T>::powers(std::span<Vector<T, Host>* const> v, std::span<const RecurrenceStep<T>> steps,
                             const Vector<T, Host>* before) const {
  const auto fits = [&](const Vector<T, Host>& u) {
    return u.space() == this->range() && u.columns() == v[0]->columns() && u.columns() <= 2;
  };
  // On several ranks the cells beside the halo are computed last, so the sweep cannot follow the product line by line.
  // Few cells all wait for the halo: there is little to compute meanwhile.
  constexpr Local few = 1000;
  const bool on_ranks = this->range().comm().size() > 1;
  if (wide_ || (on_ranks && this->range().local_size() > few) || steps.empty() || v.size() != steps.size() + 1 ||
      !std::all_of(v.begin(), v.end(), [&](const auto* u) { return fits(*u); }) ||
      (steps[0].beta != T(0) && !(before && fits(*before))))
    return Operator<T, Host>::powers(v, steps, before);
  const exec::Tasks::InOrder in_order(true);
  for (std::size_t c = 0; c < steps.size(); ++c) {
    this->count_apply();
    const int token = begin(*v[c], *v[c + 1], false);
    try {
      product(*v[c], *v[c + 1], token, &steps[c], c > 0 ? v[c - 1] : before);
    } catch (...) {
      this->abandon(token);
      throw;
    }
  }
}

/// The product of one or two columns with this rank's patches, and the sweep of a step of a recurrence behind it.
template <Scalar T>
struct FiniteVolume<T>::Parts::Product {
  const FiniteVolume& of;
  const RecurrenceStep<T>* step;
  const Vector<T, Host>* before;
  const T* ghost = nullptr;

  void run(const T* from, T* to, What what, int width) const {
    for (std::size_t p = 0; p < of.boxes_.count(); ++p) patch(p, from, to, what, width);
  }

  void patch(std::size_t p, const T* from, T* to, What what, int width) const {
    const CellBox& b = of.boxes_.own(p);
    const auto offset = of.boxes_.offset(p);
    PatchView<T> view{b.size(0),
                      b.size(1),
                      b.size(2),
                      from + width * offset,
                      to + width * offset,
                      of.compact_ ? of.diagonal_line(p) : of.diagonal_.data() + offset,
                      of.stored_faces(0, p),
                      of.stored_faces(1, p),
                      of.stored_faces(2, p),
                      of.compact_,
                      {}};
    for (std::size_t s = 0; s < 6; ++s) view.ghost[s] = ghost + std::size_t(width) * of.parts_->halo.start[6 * p + s];
    const int dimensions = of.boxes_.domain().dimensions;
    const Global lines = b.size(1) * b.size(2), pieces = in_pieces(of) ? std::min<Global>(lines, 64) : 1;
    const auto piece_of = [&](std::size_t piece) {
      const Global begin = lines * Global(piece) / pieces, end = lines * Global(piece + 1) / pieces;
      const auto poll = [&] {
        if (what == What::before_halo && exec::may_poll()) of.range().comm().poll();
      };
      const auto lines_of = [&](Global from_line, Global to_line) {
        if (width == 1) apply_lines<T, 1>(dimensions, view, what, from_line, to_line, poll);
        else apply_lines<T, 2>(dimensions, view, what, from_line, to_line, poll);
      };
      if (!step) return lines_of(begin, end);
      // The sweep of a step follows its product while that is in cache.
      const Global together = std::max<Global>(1, step_elements / (width * b.size(0)));
      const T* const last = before ? before->data() + width * offset : nullptr;
      for (Global line = begin; line < end; line += together) {
        const Global stop = std::min(end, line + together), wide = width * b.size(0);
        lines_of(line, stop);
        extend_rows(*step, last, view.x, view.y, wide * line, wide * stop);
      }
    };
    if (in_pieces(of)) exec::each(std::size_t(pieces), true, piece_of);
    else piece_of(0);
    if (Trace::on()) trace(b, what, width);
  }

  void trace(const CellBox& b, What what, int width) const {
    const int dimensions = of.boxes_.domain().dimensions;
    double inner = 1;  // fraction of inner lines
    for (int a = 1; a < dimensions; ++a) inner *= double(std::max<Global>(0, b.size(a) - 2)) / double(b.size(a));
    const double part = what == What::all ? 1 : what == What::before_halo ? inner : 1 - inner;
    const double cells = part * double(b.size(0)) * double(b.size(1) * b.size(2));
    Trace::work("product", cells * sizeof(T) * ((of.compact_ ? 0 : 1 + dimensions) + 2 * width),
                cells * width * (4 * dimensions + 1));
  }

  /// More than two columns, whose ghosts have arrived: eight at a time are copied to work space and back, so that
  /// coefficients are read once.
  void run_many(const Vector<T, Host>& x, Vector<T, Host>& y) {
    constexpr std::size_t together = 8;
    auto& buffers = of.parts_->buffers;
    const std::size_t k = std::size_t(x.columns()), n = std::size_t(of.range().local_size()),
                      ghosts = of.parts_->halo.source.size();
    buffers.x.resize(together * n), buffers.y.resize(together * n), buffers.column.resize(together * ghosts);
    const auto each_piece = [&](std::size_t count, auto&& f) {  // f(first, last)
      const std::size_t pieces = in_pieces(of) ? 64 : 1;
      exec::each(pieces, in_pieces(of), [&](std::size_t p) { f(count * p / pieces, count * (p + 1) / pieces); });
    };
    const auto columns = [&](std::size_t c, auto width) {
      const auto split = [&](const T* from, T* to, std::size_t count) {
        each_piece(count, [&](std::size_t first, std::size_t last) {
          for (std::size_t i = first; i < last; ++i)
            for (std::size_t d = 0; d < width; ++d) to[d * count + i] = from[i * k + d];
        });
      };
      split(x.data() + c, buffers.x.data(), n);
      split(buffers.ghosts.data() + c, buffers.column.data(), ghosts);
      for (std::size_t d = 0; d < width; ++d) {
        ghost = buffers.column.data() + d * ghosts;
        run(buffers.x.data() + d * n, buffers.y.data() + d * n, What::all, 1);
      }
      each_piece(n, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i)
          for (std::size_t d = 0; d < width; ++d) y.data()[i * k + c + d] = buffers.y[d * n + i];
      });
    };
    // A width of eight is a compile-time constant.
    for (std::size_t c = 0; c < k; c += together)
      if (k - c >= together) columns(c, std::integral_constant<std::size_t, together>{});
      else columns(c, k - c);
  }
};

template <Scalar T>
void FiniteVolume<T>::product(const Vector<T, Host>& x, Vector<T, Host>& y, int token, const RecurrenceStep<T>* step,
                              const Vector<T, Host>* before) const {
  Parts& parts = *parts_;
  const int columns = x.columns();
  const Span span("finite volume product", "op", Trace::on() ? std::int64_t(cost().bytes) * columns : 0);
  if (wide_) return finish_wide(x, y, token);
  typename Parts::Product product{*this, step, before};
  auto& ghosts = parts.buffers.ghosts;
  ghosts.resize(parts.halo.source.size() * std::size_t(columns));
  comm::Exchange* e = nullptr;
  const T* remote = nullptr;
  if (token >= 0) {
    e = &parts.exchange(this->range().comm(), columns);
    if (columns <= 2 && !step) product.run(x.data(), y.data(), What::before_halo, columns);
    e->wait(token);
    remote = reinterpret_cast<const T*>(e->incoming(token));
  }
  fill_ghosts(parts.halo, x.data(), remote, columns, ghosts.data());
  if (e) e->close(token);
  if (columns > 2) return product.run_many(x, y);
  product.ghost = ghosts.data();
  product.run(x.data(), y.data(), token >= 0 && !step ? What::after_halo : What::all, columns);
}

template <Scalar T>
Cost FiniteVolume<T>::cost() const {
  const double n = double(this->range().local_size());
  const int d = boxes_.domain().dimensions;
  const double points = !wide_                                        ? 4 * d + 1
                        : stencil_ == CellStencil::twenty_seven_point ? 5 * d
                        : constant_                                   ? 6 * d
                                                                      : 30 * d;
  return {n * points,
          n * double(sizeof(T)) *
              (compact_             ? 2
               : wide_ && constant_ ? 4
                                    : 3 + d),
          double(parts_->pattern->send_ranks.size()), double(parts_->pattern->send_index.size() * sizeof(T))};
}

#define TACIT_INSTANTIATE(T)                                                                                          \
  template Coefficients<T> coefficients<T>(const Boxes&, double, double, const Field&, const Field&, CellStencil);    \
  template Coefficients<T> coefficients_of_cells<T>(const Boxes&, double, double, std::vector<T>, std::span<const T>, \
                                                    Mean);                                                            \
  template class FiniteVolume<T>;
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
template std::unique_ptr<FiniteVolume<float>> FiniteVolume<double>::cast<float>() const;

}  // namespace tacit::op
