// The systems of bench_reliability, from well to extremely badly scaled, with right-hand sides and the residual that
// the exact solution, rounded to double, has.
#pragma once

#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using namespace tacit;

struct RightHandSide {
  std::string name;
  std::vector<double> b;
  double attainable;  ///< ||b - A x|| / ||b|| of x = A^-1 b, rounded to double: the smallest attainable tolerance
};

struct System {
  std::string name;
  bool positive;
  op::Rows<double> a;
  std::vector<RightHandSide> b;
  Global n() const { return a.count(); }
};

inline double noise(std::uint64_t seed, std::uint64_t i) {  // in [-1, 1)
  std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
  for (int k = 0; k < 3; ++k) z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;
  return double(z >> 11) * 0x1p-52 - 1;
}

using Stencil = std::function<void(Global x, Global y, const std::function<void(Global, Global, double)>& put)>;

inline op::Rows<double> assemble(Global nx, Global ny, const Stencil& stencil) {
  std::vector<Global> row, column;
  std::vector<double> value;
  for (Global y = 0; y < ny; ++y)
    for (Global x = 0; x < nx; ++x)
      stencil(x, y, [&](Global dx, Global dy, double v) {
        const Global u = x + dx, w = y + dy;
        if (u < 0 || u >= nx || w < 0 || w >= ny) return;
        row.push_back(y * nx + x);
        column.push_back(w * nx + u);
        value.push_back(v);
      });
  return op::assemble<double>(comm::Communicator::self(), layout::Partition::blocks(nx * ny, 1), nx * ny, row, column,
                              value);
}

/// -div(k grad u) + v grad u on a grid of m x m, k at cell faces by the harmonic mean, v in cells (central
/// differences).
inline op::Rows<double> diffusion(Global m, const std::function<double(double, double)>& k,
                                  const std::function<std::pair<double, double>(double, double)>& velocity = nullptr) {
  const double h = 1.0 / double(m + 1);
  return assemble(m, m, [&](Global x, Global y, const auto& put) {
    const auto at = [&](Global u, Global w) { return k(double(u + 1) * h, double(w + 1) * h); };
    double sum = 0;
    const int step[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    for (const auto& s : step) {
      const double a = at(x, y), b = at(x + s[0], y + s[1]), face = 2 * a * b / (a + b);
      sum += face;
      double wind = 0;
      if (velocity) {
        const auto [vx, vy] = velocity(double(x + 1) * h, double(y + 1) * h);
        wind = (s[0] * vx + s[1] * vy) * h / 2;
      }
      put(s[0], s[1], -face + wind);
    }
    put(0, 0, sum);
  });
}

/// D_left A D_right
inline op::Rows<double> scale(op::Rows<double> a, const std::function<double(Global)>& left,
                              const std::function<double(Global)>& right) {
  for (Local i = 0; i < a.count(); ++i)
    for (Global e = a.start[i]; e < a.start[i + 1]; ++e) a.value[e] *= left(i) * right(a.column[e]);
  return a;
}

inline std::vector<double> times(const op::Rows<double>& a, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (Local i = 0; i < a.count(); ++i) {
    long double sum = 0;
    for (Global e = a.start[i]; e < a.start[i + 1]; ++e) sum += (long double)(a.value[e]) * x[a.column[e]];
    y[i] = double(sum);
  }
  return y;
}
/// ||b - A x|| / ||b||
inline double true_residual(const op::Rows<double>& a, const std::vector<double>& b, const std::vector<double>& x) {
  long double rr = 0, bb = 0;
  for (Local i = 0; i < a.count(); ++i) {
    long double r = b[i];
    for (Global e = a.start[i]; e < a.start[i + 1]; ++e) r -= (long double)(a.value[e]) * x[a.column[e]];
    rr += r * r;
    bb += (long double)(b[i]) * b[i];
  }
  return double(std::sqrt(rr / bb));
}

/// A^-1 b to more digits than double has, rounded to double: by a band LU in long double and two corrections.
class Reference {
 public:
  explicit Reference(const op::Rows<double>& a) : a_(a), n_(a.count()) {
    for (Local i = 0; i < a.count(); ++i)
      for (Global e = a.start[i]; e < a.start[i + 1]; ++e) band_ = std::max<Global>(band_, std::abs(a.column[e] - i));
    width_ = 2 * band_ + 1;
    lu_.assign(std::size_t(n_ * width_), 0);
    for (Local i = 0; i < a.count(); ++i)
      for (Global e = a.start[i]; e < a.start[i + 1]; ++e) at(i, a.column[e]) = a.value[e];
    for (Global k = 0; k < n_; ++k)
      for (Global i = k + 1; i < std::min(n_, k + band_ + 1); ++i) {
        const long double f = at(i, k) /= at(k, k);
        if (f != 0)
          for (Global j = k + 1; j < std::min(n_, k + band_ + 1); ++j) at(i, j) -= f * at(k, j);
      }
  }
  std::vector<double> solve(const std::vector<double>& b) const {
    std::vector<long double> x(n_, 0);
    for (int round = 0; round < 3; ++round) {
      std::vector<long double> r(b.begin(), b.end());
      for (Local i = 0; i < a_.count(); ++i)
        for (Global e = a_.start[i]; e < a_.start[i + 1]; ++e) r[i] -= a_.value[e] * x[a_.column[e]];
      for (Global i = 0; i < n_; ++i)
        for (Global j = std::max<Global>(0, i - band_); j < i; ++j) r[i] -= at(i, j) * r[j];
      for (Global i = n_; i-- > 0;) {
        for (Global j = i + 1; j < std::min(n_, i + band_ + 1); ++j) r[i] -= at(i, j) * r[j];
        r[i] /= at(i, i);
      }
      for (Global i = 0; i < n_; ++i) x[i] += r[i];
    }
    return {x.begin(), x.end()};
  }

 private:
  long double& at(Global i, Global j) { return lu_[std::size_t(i * width_ + j - i + band_)]; }
  long double at(Global i, Global j) const { return lu_[std::size_t(i * width_ + j - i + band_)]; }
  const op::Rows<double>& a_;
  Global n_, band_ = 0, width_ = 1;
  std::vector<long double> lu_;
};

/// The systems on grids of m x m.
inline std::vector<System> systems(Global m) {
  const auto one = [](double, double) { return 1.0; };
  const auto power = [](std::uint64_t seed, double range) {
    return [=](Global i) { return std::pow(10.0, range * noise(seed, std::uint64_t(i))); };
  };
  const auto unit = [](Global) { return 1.0; };
  const auto jumps = [](double high) {
    return [=](double x, double y) { return (int(4 * x) + int(4 * y)) % 2 ? high : 1.0; };
  };
  const auto wind = [](double strength) { return [=](double, double) { return std::pair(strength, 0.7 * strength); }; };
  const auto whirl = [](double strength) {
    return [=](double x, double y) {
      return std::pair(strength * 2 * (2 * y - 1) * (1 - (2 * x - 1) * (2 * x - 1)),
                       -strength * 2 * (2 * x - 1) * (1 - (2 * y - 1) * (2 * y - 1)));
    };
  };
  const auto laplace = diffusion(m, one);
  const auto convection = diffusion(m, one, wind(40));
  const Global n = m * m;
  std::vector<System> all;
  const auto positive = [&](const std::string& name, op::Rows<double> a) {
    all.push_back({name, true, std::move(a), {}});
  };
  const auto general = [&](const std::string& name, op::Rows<double> a) {
    all.push_back({name, false, std::move(a), {}});
  };
  positive("laplace", laplace);
  positive("anisotropic 1e4", assemble(m, m, [](Global, Global, const auto& put) {
             put(0, 0, 2 + 2e-4), put(1, 0, -1), put(-1, 0, -1), put(0, 1, -1e-4), put(0, -1, -1e-4);
           }));
  positive("jumps 1e6", diffusion(m, jumps(1e6)));
  positive("jumps 1e10", diffusion(m, jumps(1e10)));
  positive("plate", assemble(n / 4, 1, [](Global, Global, const auto& put) {  // the square of the second difference
             put(0, 0, 6), put(1, 0, -4), put(-1, 0, -4), put(2, 0, 1), put(-2, 0, 1);
           }));
  positive("scaled 1e6", scale(laplace, power(1, 1.5), power(1, 1.5)));
  positive("scaled 1e12", scale(laplace, power(2, 3), power(2, 3)));
  positive("smoothly scaled 1e8", scale(
                                      laplace, [=](Global i) { return std::pow(10.0, 4.0 * double(i) / double(n)); },
                                      [=](Global i) { return std::pow(10.0, 4.0 * double(i) / double(n)); }));
  positive("diagonal 1e12", assemble(n / 2, 1, [=](Global x, Global, const auto& put) {
             put(0, 0, std::pow(10.0, 12.0 * double(x) / double(n / 2)));
           }));
  general("convection", convection);
  general("strong convection", diffusion(m, one, wind(400)));
  general("whirl", diffusion(m, one, whirl(200)));
  general("jumps and wind", diffusion(m, jumps(1e4), wind(40)));
  general("rows scaled 1e6", scale(convection, power(3, 3), unit));
  general("rows scaled 1e12", scale(convection, power(4, 6), unit));
  general("columns scaled 1e6", scale(convection, unit, power(5, 3)));
  general("columns scaled 1e12", scale(convection, unit, power(6, 6)));
  general("both scaled 1e6", scale(convection, power(7, 1.5), power(8, 1.5)));
  for (System& system : all) {
    std::vector<double> ones(system.n(), 1), random(system.n()), smooth(system.n()), x(system.n());
    for (std::size_t i = 0; i < x.size(); ++i) {
      random[i] = noise(11, i);
      smooth[i] = std::sin(3 * double(i) / double(x.size())) + 0.2;
      x[i] = noise(12, i);
    }
    system.b = {{"ones", ones, 0}, {"random", random, 0}, {"smooth", smooth, 0}, {"A random", times(system.a, x), 0}};
    const Reference exact(system.a);
    for (RightHandSide& f : system.b) f.attainable = true_residual(system.a, f.b, exact.solve(f.b));
  }
  return all;
}

}  // namespace bench
