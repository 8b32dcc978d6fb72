// Every operator of op with its matrix, in the memories that have it.
#pragma once

#include <tacit/op/cells/finite_volume.hpp>
#include <tacit/op/compose.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/function.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>
#include <tacit/op/hmatrix/on_devices.hpp>
#include <tacit/op/low_rank.hpp>
#include <tacit/op/scaled.hpp>
#include <tacit/op/stencil.hpp>
#include <tacit/op/tiled_spmm.hpp>

#include "support/devices.hpp"
#include "support/reference.hpp"
#include "support/sweeping.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tacit::test {

template <class T, Memory M = Host>
struct OperatorCase {
  std::string name;
  Reference<T> matrix;
  std::function<op::OperatorPointer<T, M>(const comm::Communicator&)> make;
  bool knows_largest = true;  // largest() is exact
  bool sparse = true;         // a row reads only the elements of its stored entries
  int in_flight = 2;          // products that may be under way at a time
  int columns = 99;           // the most that a product takes
  int reductions = 0;         // of a product
};

/// How a csr matrix's indices are distributed: evenly, all on the last rank, or none on every other rank.
enum class Spread { blocks, last, holes };

inline layout::Space spread_space(const comm::Communicator& comm, Global n, Spread how) {
  std::vector<Global> offsets{0};
  const int p = comm.size();
  for (int r = 0; r < p; ++r) {
    const int holders = (p + 1) / 2;
    if (how == Spread::blocks) return layout::Space::distributed(comm, n);
    if (how == Spread::last) offsets.push_back(r == p - 1 ? n : 0);
    else offsets.push_back(n * (r / 2 + 1) / holders);
  }
  return layout::Space::distributed(comm, layout::Partition(std::move(offsets)));
}

template <class T, Memory M = Host>
OperatorCase<T, M> csr_case(std::string name, const Reference<T>& a, op::Format format, Spread rows = Spread::blocks,
                            Spread columns = Spread::blocks) {
  return {"csr " + name, a, [=](const comm::Communicator& comm) -> op::OperatorPointer<T, M> {
            const auto range = spread_space(comm, a.rows, rows);
            const bool same = a.rows == a.columns && rows == columns;
            const auto domain = same ? range : spread_space(comm, a.columns, columns);
            return std::make_shared<op::Csr<T, M>>(range, domain, a.rows_of(range), format);
          }};
}

template <class T>
OperatorCase<T> stencil_case(std::string name, const op::Grid& grid, const op::Weights<T>& w) {
  return {"stencil " + name, stencil_matrix(grid, w), [=](const comm::Communicator& comm) -> op::OperatorPointer<T> {
            return std::make_shared<op::Stencil<T>>(comm, grid, w);
          }};
}

/// 0.7 alpha u - 0.01 div(beta grad u) on slabs of cells, assembled flux by flux.
template <class T>
OperatorCase<T> cells_case(std::string name, std::vector<Global> n, std::vector<std::array<op::Boundary, 2>> boundary) {
  const double a = 0.7, b = 0.01;
  const auto domain = op::Domain::uniform(n, boundary);
  const op::Field alpha = [](double x, double y, double z) { return 1 + x + y * z; };
  const op::Field beta = [](double x, double y, double z) { return 2 + x * y - z * z + 0.5 * y; };
  const auto d = n.size();
  n.resize(3, 1);
  const Global all = n[0] * n[1] * n[2];
  Reference<T> matrix{all, all, {}};
  for (Global i = 0; i < all; ++i) {
    const std::array<Global, 3> c{i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
    double at[3];
    for (std::size_t k = 0; k < 3; ++k) at[k] = k < d ? (double(c[k]) + 0.5) / double(n[k]) : 0.5;
    matrix.entry[{i, i}] += T(a * alpha(at[0], at[1], at[2]));
    for (std::size_t axis = 0; axis < d; ++axis)
      for (int side = 0; side < 2; ++side) {
        const double h = 1 / double(n[axis]);
        double face[3] = {at[0], at[1], at[2]};
        face[axis] += side ? h / 2 : -h / 2;
        if (boundary[axis][0] == op::Boundary::periodic && c[axis] + side == n[axis]) face[axis] = 0;
        auto other = c;
        other[axis] += side ? 1 : -1;
        const bool outside = other[axis] < 0 || other[axis] >= n[axis];
        if (outside && boundary[axis][std::size_t(side)] == op::Boundary::neumann) continue;
        double v = b * beta(face[0], face[1], face[2]) / (h * h);
        if (outside && boundary[axis][std::size_t(side)] == op::Boundary::dirichlet) {
          matrix.entry[{i, i}] += T(2 * v);
          continue;
        }
        other[axis] = (other[axis] + n[axis]) % n[axis];
        matrix.entry[{i, i}] += T(v);
        matrix.entry[{i, other[0] + n[0] * (other[1] + n[1] * other[2])}] -= T(v);
      }
  }
  return {"finite volume " + name, std::move(matrix), [=](const comm::Communicator& comm) -> op::OperatorPointer<T> {
            // Slabs of the slowest axis, so that cells keep the order of the grid; some ranks may own none.
            std::vector<op::CellBox> boxes;
            std::vector<int> owners;
            for (int r = 0; r < comm.size(); ++r) {
              op::CellBox box{{0, 0, 0}, {n[0], n[1], n[2]}};
              box.lower[d - 1] = n[d - 1] * r / comm.size(), box.upper[d - 1] = n[d - 1] * (r + 1) / comm.size();
              if (box.cells() > 0) boxes.push_back(box), owners.push_back(r);
            }
            const op::Boxes cells(comm, domain, boxes, owners);
            return std::make_shared<op::FiniteVolume<T>>(cells, op::coefficients<T>(cells, a, b, alpha, beta));
          }};
}

/// 0.7 u - 0.01 lap u by a wide stencil, as sums of matrices along each axis; slabs along the last, periodic axis.
template <class T>
OperatorCase<T> wide_case(op::CellStencil stencil, std::vector<Global> n,
                          std::vector<std::array<op::Boundary, 2>> boundary) {
  const double a = 0.7, b = 0.01;
  const bool fourth = stencil == op::CellStencil::fourth_order;
  const auto d = n.size();
  std::vector<double> lengths;  // cells are cubes of edge 1/8
  for (const Global k : n) lengths.push_back(double(k) / 8);
  const auto domain = op::Domain::uniform(n, boundary, lengths);
  // Second differences along an axis, times h^2, with the ghost values of the boundary condition u = 0.
  const auto line = [&](std::size_t axis) {
    const Global m = n[axis];
    std::vector<std::vector<double>> D(std::size_t(m), std::vector<double>(std::size_t(m), 0.0));
    const double near[] = {-77. / 12, 43. / 12, -17. / 12, 3. / 12},
                 far[] = {-505. / 12, 335. / 12, -145. / 12, 27. / 12};
    const double inner[] = {-1. / 12, 16. / 12, -30. / 12, 16. / 12, -1. / 12}, three[] = {0, 1, -2, 1, 0};
    for (Global i = 0; i < m; ++i)
      for (Global o = -2; o <= 2; ++o) {
        auto& row = D[std::size_t(i)];
        const double w = fourth ? inner[o + 2] : three[o + 2];
        const Global j = i + o, beyond = j < 0 ? -j : j >= m ? j - m + 1 : 0;
        if (boundary[axis][0] == op::Boundary::periodic || beyond == 0) {
          row[std::size_t((j % m + m) % m)] += w;
        } else if (!fourth) {
          row[std::size_t(j < 0 ? 0 : m - 1)] -= w;
        } else {
          for (Global k = 0; k < 4; ++k)
            row[std::size_t(j < 0 ? k : m - 1 - k)] += w * (beyond == 1 ? near[k] : far[k]);
        }
      }
    return D;
  };
  std::vector<std::vector<std::vector<double>>> D;
  for (std::size_t axis = 0; axis < d; ++axis) D.push_back(line(axis));
  n.resize(3, 1);
  while (D.size() < 3) D.push_back({{0.0}});
  const Global all = n[0] * n[1] * n[2];
  Reference<T> matrix{all, all, {}};
  for (Global i = 0; i < all; ++i)
    for (Global j = 0; j < all; ++j) {
      double is[3], second[3];
      const Global ci[3] = {i % n[0], i / n[0] % n[1], i / n[0] / n[1]},
                   cj[3] = {j % n[0], j / n[0] % n[1], j / n[0] / n[1]};
      for (std::size_t k = 0; k < 3; ++k)
        is[k] = ci[k] == cj[k], second[k] = D[k][std::size_t(ci[k])][std::size_t(cj[k])];
      double lap = second[0] * is[1] * is[2] + is[0] * second[1] * is[2] + is[0] * is[1] * second[2];
      if (!fourth)
        lap += (second[0] * second[1] * is[2] + second[0] * is[1] * second[2] + is[0] * second[1] * second[2]) / 6 +
               second[0] * second[1] * second[2] / 30;
      const double v = (i == j ? a : 0) - b * 64 * lap;
      if (std::abs(v) > 1e-14) matrix.entry[{i, j}] = T(v);
    }
  const auto cells_of = [=](const comm::Communicator& comm) {
    std::vector<op::CellBox> boxes;
    std::vector<int> owners;
    for (int r = 0; r < comm.size(); ++r) {
      op::CellBox box{{0, 0, 0}, {n[0], n[1], n[2]}};
      box.lower[d - 1] = n[d - 1] * r / comm.size(), box.upper[d - 1] = n[d - 1] * (r + 1) / comm.size();
      if (box.cells() > 0) boxes.push_back(box), owners.push_back(r);
    }
    return op::Boxes(comm, domain, boxes, owners);
  };
  return {std::string("finite volume, ") + op::to_string(stencil), std::move(matrix),
          [=](const comm::Communicator& comm) -> op::OperatorPointer<T> {
            const auto cells = cells_of(comm);
            return std::make_shared<op::FiniteVolume<T>>(cells, op::coefficients<T>(cells, a, b, {}, {}, stencil));
          }};
}

/// y = A x by gathering x on every rank, as an operator written by a user might do.
template <class T, Memory M = Host>
op::OperatorPointer<T, M> gathering_function(const comm::Communicator& comm, const Reference<T>& a) {
  const auto range = layout::Space::distributed(comm, a.rows), domain = layout::Space::distributed(comm, a.columns);
  const auto gathered = [comm](const Reference<T>& matrix, layout::Space from, layout::Space to) {
    return [=](const T* x, T* y, int k) {
      std::vector<T> own(std::size_t(from.local_size()) * k), result(std::size_t(to.local_size()) * k);
      if constexpr (std::same_as<M, Host>) std::copy_n(x, own.size(), own.begin());
      else if (!own.empty()) exec::copy_to_host(own.data(), x, own.size() * sizeof(T));
      const auto all = comm.all_gather(std::span<const T>(own));
      for (int c = 0; c < k; ++c) {
        std::vector<T> column(static_cast<std::size_t>(from.size()));
        for (std::size_t i = 0; i < column.size(); ++i) column[i] = all[i * k + c];
        const auto product = matrix.times(column);
        for (Local i = 0; i < to.local_size(); ++i) result[std::size_t(i) * k + c] = product[to.begin() + i];
      }
      if constexpr (std::same_as<M, Host>) std::copy(result.begin(), result.end(), y);
      else if (!result.empty()) exec::copy_to_device(y, result.data(), result.size() * sizeof(T));
    };
  };
  std::vector<T> diagonal;
  for (Global i = range.begin(); a.rows == a.columns && i < range.end(); ++i) {
    const auto found = a.entry.find({i, i});
    diagonal.push_back(found == a.entry.end() ? T(0) : found->second);
  }
  return std::make_shared<op::Function<T, M>>(range, domain, gathered(a, domain, range),
                                              gathered(a.adjoint(), range, domain), diagonal);
}

/// How an H-matrix is put on a group of devices; nothing in other memories.
template <Memory M>
struct GroupOf {};
template <class Each>
struct GroupOf<Group<Each>> {
  int devices = 1;
  exec::DevicePath path = exec::DevicePath::peer;
  op::BlockDeal deal = op::BlockDeal::rows;
  exec::VectorWork work = exec::VectorWork::redundant;

  template <class T>
  op::OperatorPointer<T, Group<Each>> on_devices(std::shared_ptr<const op::HMatrix<T>> matrix) const {
    auto made = std::make_shared<op::HMatrixOnDevices<T, Each>>(std::move(matrix), devices_of<Each>(devices),
                                                                op::DeviceProductOptions{path, deal});
    made->group().work = work;
    return made;
  }
};

/// Rank two plus a diagonal, over points on a line: the compressed blocks are accurate to rounding.
/// In a group's memory: on `devices` devices.
template <class T, Memory M = Host>
OperatorCase<T, M> hmatrix_case(std::string name, Global m, Global n, bool replicated, bool symmetric = false,
                                const GroupOf<M>& group = {}, bool nested = false) {
  const std::uint64_t other = symmetric ? 0 : 1;
  const auto value = [m, n, other](Global i, Global j) {
    return number<T>(20, std::uint64_t(i)) * number<T>(20 + other, std::uint64_t(j)) +
           number<T>(22, std::uint64_t(i)) * number<T>(22 + other, std::uint64_t(j)) +
           T(m == n && i == j ? real_t<T>(2) : real_t<T>(0));
  };
  const auto line = [](Global count) {
    op::Geometry g;
    for (Global i = 0; i < count; ++i) g.points.push_back({double(i * 17 % count), 0, 0});
    return std::make_shared<const op::ClusterTree>(g, op::TreeOptions{op::Bisection::median, 4, 0});
  };
  Reference<T> matrix{m, n, {}};
  for (Global i = 0; i < m; ++i)
    for (Global j = 0; j < n; ++j) matrix.entry[{i, j}] = value(i, j);
  return {"hmatrix " + name,
          std::move(matrix),
          [=](const comm::Communicator& comm) -> op::OperatorPointer<T, M> {
            const auto space = [&](Global size) {
              return replicated ? layout::Space::replicated(comm, size) : layout::Space::distributed(comm, size);
            };
            const auto rows = line(m);
            const auto range = space(m);
            op::HMatrixOptions options;
            options.tolerance = 4 * epsilon<T>();
            if (symmetric) options.symmetry = op::Symmetry::symmetric;
            options.nested = nested;
            const op::EntryFunction<T> entry = [=](auto i, auto j, T* out) {
              for (const Global c : j)
                for (const Global r : i) *out++ = value(r, c);
            };
            const auto made = m == n ? std::make_shared<op::HMatrix<T>>(range, rows, entry, options)
                                     : std::make_shared<op::HMatrix<T>>(range, space(n), rows, line(n), entry, options);
            if constexpr (is_group<M>) return group.template on_devices<T>(made);
            else return made;
          },
          false,
          false,
          is_group<M> ? 1 : 2,
          is_group<M> ? 1 : 99};
}

/// Split by rows; or by columns, where a rank's rows are those that its columns touch, numbered consecutively.
template <class T>
OperatorCase<T> tiled_case(std::string name, const Reference<T>& a, op::TiledSpmmOptions options, op::Split split,
                           Spread rows = Spread::blocks, Spread columns = Spread::blocks) {
  return {"tiled " + name, a, [=](const comm::Communicator& comm) -> op::OperatorPointer<T> {
            const auto range = spread_space(comm, a.rows, rows);
            const bool same = a.rows == a.columns && rows == columns;
            const auto domain = same ? range : spread_space(comm, a.columns, columns);
            if (split == op::Split::rows)
              return std::make_shared<op::TiledSpmm<T>>(range, domain, a.rows_of(range), options);
            const auto transposed = a.adjoint().rows_of(domain);
            std::vector<Global> touched(transposed.column.begin(), transposed.column.end());
            std::sort(touched.begin(), touched.end());
            touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
            const auto place = [&](Global r) {
              return Local(std::lower_bound(touched.begin(), touched.end(), r) - touched.begin());
            };
            std::vector<op::RowBuffer<T>> part(touched.size());
            const op::RowSource<T> backward = [&](Local begin, Local end, op::RowBuffer<T>& out) {
              for (Local c = begin; c < end; ++c) {
                for (Global i = transposed.start[std::size_t(c)]; i < transposed.start[std::size_t(c) + 1]; ++i)
                  out.add(place(transposed.column[std::size_t(i)]), transposed.value[std::size_t(i)]);
                out.end_row();
              }
            };
            for (Local c = 0; c < transposed.count(); ++c)
              for (Global i = transposed.start[std::size_t(c)]; i < transposed.start[std::size_t(c) + 1]; ++i)
                part[std::size_t(place(transposed.column[std::size_t(i)]))].add(c, transposed.value[std::size_t(i)]);
            const op::RowSource<T> forward = [&](Local begin, Local end, op::RowBuffer<T>& out) {
              for (Local r = begin; r < end; ++r) {
                const auto& row = part[std::size_t(r)];
                for (std::size_t i = row.column.size(); i-- > 0;) out.add(row.column[i], row.value[i]);  // any order
                out.end_row();
              }
            };
            return std::make_shared<op::TiledSpmm<T>>(range, domain, split, touched, forward, backward, options);
          }};
}

/// The matrices of stored operators: of odd size with empty rows and columns, one full row and an unsymmetric pattern;
/// a band; more columns than rows, and more rows than columns.
template <class T>
struct Matrices {
  Reference<T> irregular = random_matrix<T>(37, 37, 1, [](Global i, Global j) {
    return i % 5 != 3 && j != 20 && (i == 17 || std::abs(i - j) <= 2 || (i * 7 + j * 3) % 23 == 0);
  });
  Reference<T> banded = random_matrix<T>(41, 41, 2, [](Global i, Global j) { return j - i >= -1 && j - i <= 3; });
  Reference<T> wide = random_matrix<T>(23, 41, 3, [](Global i, Global j) { return (3 * i + j) % 7 == 0; });
  Reference<T> tall = wide.adjoint();
};

/// In every memory that has the operators.
template <class T, Memory M>
void add_stored(std::vector<OperatorCase<T, M>>& cases) {
  using op::Format;
  const auto [irregular, banded, wide, tall] = Matrices<T>();
  cases.push_back(csr_case<T, M>("irregular", irregular, Format::automatic));
  cases.push_back(csr_case<T, M>("irregular, rows", irregular, Format::csr));
  cases.push_back(csr_case<T, M>("irregular, slices", irregular, Format::sell));
  cases.push_back(csr_case<T, M>("banded, rows", banded, Format::csr));
  cases.push_back(csr_case<T, M>("banded, slices", banded, Format::sell));
  // Blocks of 3, some with holes, some divided between ranks, and one unknown that belongs to no full block.
  const auto nodes = random_matrix<T>(40, 40, 7, [](Global i, Global j) {
    const Global p = i / 3, q = j / 3;
    return (std::abs(p - q) <= 1 || (p + 2 * q) % 7 == 0) && !((p + q) % 5 == 0 && (i + 2 * j) % 4 == 1);
  });
  if constexpr (std::same_as<M, Host>) {
    cases.push_back(csr_case<T, M>("blocks of 3", nodes, Format::bsr));
    cases.push_back(csr_case<T, M>("blocks of 3, with holes", nodes, Format::bsr, Spread::holes, Spread::holes));
    cases.push_back(
        csr_case<T, M>("blocks of 3, spread differently", nodes, Format::bsr, Spread::last, Spread::blocks));
    cases.push_back(csr_case<T, M>("irregular, blocks", irregular, Format::bsr));
    cases.push_back(csr_case<T, M>("wide, blocks", wide, Format::bsr));
    cases.push_back(csr_case<T, M>("without entries, blocks", Reference<T>{11, 11, {}}, Format::bsr));
  }
  cases.push_back(csr_case<T, M>("blocks of 3, automatic", nodes, Format::automatic));
  cases.push_back(csr_case<T, M>("on one rank", irregular, Format::sell, Spread::last, Spread::last));
  cases.push_back(csr_case<T, M>("with holes", irregular, Format::automatic, Spread::holes, Spread::holes));
  cases.push_back(
      csr_case<T, M>("rows and columns spread differently", banded, Format::sell, Spread::holes, Spread::last));
  cases.push_back(csr_case<T, M>("wide", wide, Format::sell));
  cases.push_back(csr_case<T, M>("wide, rows", wide, Format::csr, Spread::blocks, Spread::last));
  cases.push_back(csr_case<T, M>("tall", tall, Format::sell));
  cases.push_back(
      csr_case<T, M>("of one", random_matrix<T>(1, 1, 4, [](Global, Global) { return true; }), Format::automatic));
  cases.push_back(csr_case<T, M>("without entries", Reference<T>{11, 11, {}}, Format::sell));
  const auto of_irregular = csr_case<T, M>("", irregular, Format::automatic).make;
  cases.push_back({"scaled", T(real_t<T>(0.25)) * irregular,
                   [=](const comm::Communicator& c) { return scaled<T, M>(of_irregular(c), real_t<T>(0.25)); }});
  cases.push_back({"diagonal", Reference<T>::diagonal(29, [](Global i) { return number<T>(9, std::uint64_t(i)); }),
                   [](const comm::Communicator& c) {
                     return diagonal<T, M>(vector_of<T, M>(layout::Space::distributed(c, 29), 9));
                   }});
  cases.push_back({"function", irregular,
                   [=](const comm::Communicator& c) { return gathering_function<T, M>(c, irregular); }, false});
  cases.push_back(
      {"function, tall", tall, [=](const comm::Communicator& c) { return gathering_function<T, M>(c, tall); }, false});
}

/// Those of host memory only.
template <class T>
void add_stencils(std::vector<OperatorCase<T>>& cases) {
  using op::Boundary, op::Grid;
  const auto star = random_weights<T>(5, true), full = random_weights<T>(6, false);
  const std::vector<Boundary> kinds{Boundary::dirichlet, Boundary::neumann, Boundary::periodic};
  const char* names[] = {"dirichlet", "neumann", "periodic"};
  for (int k = 0; k < 3; ++k)
    for (bool is_star : {true, false}) {
      const auto& w = is_star ? star : full;
      const std::string kind = std::string(names[k]) + (is_star ? " star" : " full");
      cases.push_back(stencil_case<T>("line, " + kind, Grid({13}, kinds[k]), w));
      cases.push_back(stencil_case<T>("plane, " + kind, Grid({9, 7}, kinds[k]), w));
      cases.push_back(stencil_case<T>("box, " + kind, Grid({11, 3, 5}, kinds[k]), w));
      cases.push_back(stencil_case<T>("of one, " + kind, Grid({1, 1, 1}, kinds[k]), w));
      cases.push_back(stencil_case<T>("thin box, " + kind, Grid({2, 1, 2}, kinds[k]), w));
      cases.push_back(stencil_case<T>("short line, " + kind, Grid({2}, kinds[k]), w));
    }
  cases.push_back(stencil_case<T>(
      "box, mixed", Grid({10, 4, 3}, {Boundary::periodic, Boundary::neumann, Boundary::dirichlet}), full));
  cases.push_back(stencil_case<T>(
      "box, mixed star", Grid({10, 4, 3}, {Boundary::neumann, Boundary::dirichlet, Boundary::periodic}), star));
  // Real weights have a code path of their own when T is complex.
  const auto flow = op::laplacian<T>(2) + op::convection<T>(2, {3, -1, 0}, op::Convection::upwind);
  cases.push_back(
      stencil_case<T>("plane, real weights", Grid({17, 8}, {Boundary::dirichlet, Boundary::neumann}), flow));
}

template <class T>
void add_compositions(std::vector<OperatorCase<T>>& cases) {
  using op::Format;
  const auto [irregular, banded, wide, tall] = Matrices<T>();
  const auto base = csr_case<T>("", irregular, Format::automatic).make;
  const auto square = csr_case<T>(
      "", random_matrix<T>(37, 37, 7, [](Global i, Global j) { return std::abs(i - j) <= 1; }), Format::automatic);
  const auto other = square.make;
  const T alpha = number<T>(8, 0), beta = number<T>(8, 1);
  const auto add = [&](std::string name, Reference<T> matrix, auto make, bool knows_largest = false,
                       bool sparse = true) {
    cases.push_back({std::move(name), std::move(matrix), make, knows_largest, sparse});
  };
  add(
      "product", irregular * square.matrix,
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> { return op::product(base(c), other(c)); }, false,
      false);
  add(
      "square", irregular * irregular,
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> {
        const auto a = base(c);
        return op::product(a, a);
      },
      false, false);
  const auto of_wide = csr_case<T>("", wide, Format::csr).make;
  add(
      "normal equations", wide.adjoint() * wide,
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> {
        const auto a = of_wide(c);
        return op::product(op::adjoint(a), a);
      },
      false, false);
  add("sum", alpha * irregular + beta * square.matrix,
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> { return op::sum(alpha, base(c), beta, other(c)); });
  add("sum of one with itself", (alpha + beta) * irregular, [=](const comm::Communicator& c) -> op::OperatorPointer<T> {
    const auto a = base(c);
    return op::sum(alpha, a, beta, a);
  });
  const auto ones = Reference<T>::diagonal(37, [](Global) { return T(1); });
  add("shift", irregular + alpha * ones,
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> { return op::shift(base(c), alpha); });
  add(
      "adjoint", wide.adjoint(),
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> { return op::adjoint(of_wide(c)); }, true);
  add(
      "transpose", wide.adjoint().conjugate(),
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> { return op::transpose(of_wide(c)); }, true);
  add(
      "identity", ones,
      [](const comm::Communicator& c) -> op::OperatorPointer<T> {
        return std::make_shared<op::Identity<T>>(layout::Space::distributed(c, 37));
      },
      true);
  const auto left = Reference<T>::diagonal(23, [](Global i) { return number<T>(10, std::uint64_t(i)); });
  const auto right = Reference<T>::diagonal(41, [](Global i) { return number<T>(11, std::uint64_t(i)); });
  add("diagonal scaling", left * wide * right, [=](const comm::Communicator& c) -> op::OperatorPointer<T> {
    const auto a = of_wide(c);
    return op::scale(vector_of<T>(a->range(), 10), a, vector_of<T>(a->domain(), 11));
  });
  add(
      "nested", alpha * (irregular * square.matrix + beta * ones) + beta * irregular,
      [=](const comm::Communicator& c) -> op::OperatorPointer<T> {
        const auto a = base(c);
        return op::sum(alpha, op::shift(op::product(a, other(c)), beta), beta, a);
      },
      false, false);
}

template <class T>
void add_low_rank(std::vector<OperatorCase<T>>& cases) {
  const auto add = [&](std::string name, Global rows, Global columns, int k, std::uint64_t of_V) {
    const auto factor = [k](Global n, std::uint64_t seed) {  // the numbers of vector_of
      return random_matrix<T>(n, k, seed, [](Global, Global) { return true; });
    };
    cases.push_back({"low rank, " + name, factor(rows, 12) * factor(columns, of_V).adjoint(),
                     [=](const comm::Communicator& c) -> op::OperatorPointer<T> {
                       return std::make_shared<op::LowRank<T>>(
                           vector_of<T>(layout::Space::distributed(c, rows), 12, k),
                           vector_of<T>(layout::Space::distributed(c, columns), of_V, k));
                     },
                     false, false, 2, 99, 1});
  };
  add("square", 37, 37, 3, 13);
  add("Hermitian", 37, 37, 2, 12);
  add("wide", 23, 41, 2, 13);
  add("of one", 1, 1, 1, 13);
}

template <class T>
void add_tiled_and_cells(std::vector<OperatorCase<T>>& cases) {
  using op::Boundary;
  const auto [irregular, banded, wide, tall] = Matrices<T>();
  op::TiledSpmmOptions list, bitmap;
  list.matrix.format = op::TiledFormat::list;
  list.matrix.block_rows = 7;
  bitmap.matrix.format = op::TiledFormat::bitmap;
  bitmap.matrix.block_rows = 5;
  auto grouped = bitmap, threes = list;
  grouped.groups = {2, 4};
  threes.groups = {3};
  using op::Split;
  cases.push_back(tiled_case<T>("list", irregular, list, Split::rows));
  cases.push_back(tiled_case<T>("bitmap", irregular, bitmap, Split::rows));
  cases.push_back(tiled_case<T>("list, by columns", irregular, list, Split::columns));
  op::TiledSpmmOptions clustered;
  clustered.clusters = layout::ClusterOptions{layout::Clustering::greedy, 8};
  cases.push_back(tiled_case<T>("in clusters", irregular, clustered, Split::rows));
  clustered.matrix.format = op::TiledFormat::plain;
  cases.push_back(tiled_case<T>("plain, in clusters, by columns", irregular, clustered, Split::columns));
  cases.push_back(tiled_case<T>("wide, by columns, groups of 2 and 4", wide, grouped, Split::columns));
  cases.push_back(tiled_case<T>("tall, groups of 3", tall, threes, Split::rows, Spread::blocks, Spread::last));
  cases.push_back(
      tiled_case<T>("with holes, groups of 2", irregular, grouped, Split::columns, Spread::holes, Spread::holes));
  cases.push_back(tiled_case<T>("without entries", Reference<T>{11, 11, {}}, bitmap, Split::rows));
  cases.push_back(cells_case<T>("line", {13}, {{Boundary::dirichlet, Boundary::neumann}}));
  cases.push_back(cells_case<T>("plane", {5, 9},
                                {{Boundary::periodic, Boundary::periodic}, {Boundary::neumann, Boundary::dirichlet}}));
  cases.push_back(cells_case<T>("box", {6, 3, 7},
                                {{Boundary::neumann, Boundary::neumann},
                                 {Boundary::dirichlet, Boundary::dirichlet},
                                 {Boundary::periodic, Boundary::periodic}}));
  cases.push_back(cells_case<T>(
      "of one", {1, 1}, {{Boundary::dirichlet, Boundary::neumann}, {Boundary::dirichlet, Boundary::dirichlet}}));
  const std::array<Boundary, 2> ends{Boundary::dirichlet, Boundary::dirichlet},
      turn{Boundary::periodic, Boundary::periodic};
  cases.push_back(wide_case<T>(op::CellStencil::fourth_order, {4, 5, 3}, {ends, turn, turn}));
  cases.push_back(wide_case<T>(op::CellStencil::fourth_order, {7, 9}, {ends, turn}));
  cases.push_back(wide_case<T>(op::CellStencil::twenty_seven_point, {4, 3, 5}, {ends, turn, turn}));
  cases.push_back(wide_case<T>(op::CellStencil::twenty_seven_point, {6, 5}, {ends, ends}));
}

template <class T>
void add_hmatrices(std::vector<OperatorCase<T>>& cases) {
  cases.push_back(hmatrix_case<T>("square", 53, 53, false));
  cases.push_back(hmatrix_case<T>("tall", 61, 38, false));
  cases.push_back(hmatrix_case<T>("of one", 1, 1, false));
  cases.push_back(hmatrix_case<T>("square, replicated", 53, 53, true));
  cases.push_back(hmatrix_case<T>("wide, replicated", 38, 61, true));
  cases.push_back(hmatrix_case<T>("one triangle", 53, 53, false, true));
  cases.push_back(hmatrix_case<T>("one triangle, replicated", 41, 41, true, true));
  cases.push_back(hmatrix_case<T>("nested", 53, 53, false, false, {}, true));
  cases.push_back(hmatrix_case<T>("nested, tall, replicated", 61, 38, true, false, {}, true));
}

/// H-matrices on groups of devices.
template <class T, Memory M>
void add_groups(std::vector<OperatorCase<T, M>>& cases) {
  using exec::DevicePath, exec::VectorWork, op::BlockDeal;
  const auto add = [&](std::string name, Global n, int devices, DevicePath path, BlockDeal deal, VectorWork work) {
    cases.push_back(hmatrix_case<T, M>(name, n, n, true, false, {devices, path, deal, work}));
  };
  add("on a device", 53, 1, DevicePath::peer, BlockDeal::rows, VectorWork::redundant);
  add("on 3 devices", 53, 3, DevicePath::peer, BlockDeal::rows, VectorWork::shared);
  add("on 3 devices, copied by the driver", 130, 3, DevicePath::copy, BlockDeal::round_robin, VectorWork::redundant);
  add("on 2 devices, through the host", 130, 2, DevicePath::host, BlockDeal::round_robin, VectorWork::shared);
  add("of one on 3 devices", 1, 3, DevicePath::host, BlockDeal::rows, VectorWork::redundant);
}

template <class T, Memory M>
std::vector<OperatorCase<T, M>> operator_cases() {
  std::vector<OperatorCase<T, M>> cases;
  if constexpr (is_group<M>) {
    add_groups(cases);
  } else {
    add_stored(cases);
  }
  if constexpr (std::same_as<M, Host>) {
    add_stencils(cases);
    add_compositions(cases);
    add_low_rank(cases);
    if constexpr (!is_complex<T>) add_tiled_and_cells(cases);
    add_hmatrices(cases);
  }
  return cases;
}

}  // namespace tacit::test
