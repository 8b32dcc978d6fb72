// Compares the device's kernels with the host's on random input: device_test [--small] [--seed N]. Outputs are filled
// with NaN before every run. Exit code 0: all passed; 1: failures; 77: no GPU.
#include "cells_problem.hpp"
#include "problems.hpp"

#include <tacit/exec/basis.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/device_kernels.hpp>
#include <tacit/exec/pairs.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/precond/triangular_on_device.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <string>

namespace tacit::device {
namespace {

int checks = 0, failures = 0;
std::uint64_t seed = 1;
bool small = false;

void check(bool good, const std::string& what) {
  ++checks;
  if (good) return;
  ++failures;
  std::printf("FAILED  %s\n", what.c_str());
}

/// max |got - expected| <= terms eps max(1, |expected|), and no NaN.
template <class T>
void check_close(std::span<const T> got, std::span<const T> expected, double terms, const std::string& what) {
  double size = 1, worst = 0;
  bool finite = got.size() == expected.size();
  for (std::size_t i = 0; i < got.size() && finite; ++i) {
    finite = is_finite(got[i]);
    size = std::max(size, double(std::abs(expected[i])));
    worst = std::max(worst, double(std::abs(got[i] - expected[i])));
  }
  check(finite && worst <= terms * std::numeric_limits<real_t<T>>::epsilon() * size,
        message(what, ": error ", worst, " at size ", size, finite ? "" : ", or an element that nothing wrote"));
}

/// n values on the device, preceded by `shift` others, with guards at both ends.
template <class T>
struct Guarded {
  static constexpr std::size_t guard = 8;
  std::size_t shift, n;
  exec::Array<T, Device> memory;
  Guarded(const std::vector<T>& v, std::size_t shift) : shift(shift), n(v.size()), memory(pad(v, shift)) {}
  exec::View<T, Device> view() { return memory.view().part(guard + shift, n); }
  std::vector<T> host() const {
    std::vector<T> v(n);
    if (n > 0) exec::copy_to_host(v.data(), memory.data() + guard + shift, n * sizeof(T));
    return v;
  }
  bool intact() const {
    const auto all = to_host(memory);
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((i < guard + shift || i >= guard + shift + n) && all[i] != T(7)) return false;
    return true;
  }

 private:
  static exec::Array<T, Device> pad(const std::vector<T>& v, std::size_t shift) {
    std::vector<T> all(guard + shift, T(7));
    all.insert(all.end(), v.begin(), v.end());
    all.resize(all.size() + guard, T(7));
    return on_device(all);
  }
};
template <class T>
exec::View<T, Host> host_view(std::vector<T>& v) {
  return {v.data(), v.size()};
}

template <class T>
void sweeps(std::size_t n, std::size_t shift) {
  const std::string name = message(scalar_name<T>(), " n=", n, " shift=", shift);
  const auto a = numbers<T>(n, seed), b = numbers<T>(n, seed + 1), c = numbers<T>(n, seed + 2);
  std::vector<T> x = c, y(n, poison<T>()), xs = c, ys = y;
  Guarded<T> da(a, shift), db(b, shift), dx(c, shift), dy(y, shift);
  const Blend<T> blend{real_t<T>(0.5), number<T>(seed, 99)};
  const auto expected = exec::sweep(exec::reads(host_view(xs = a), host_view(ys = b)), exec::updates(host_view(x)),
                                    exec::writes(host_view(y)), blend);
  auto va = da.view(), vb = db.view(), vx = dx.view(), vy = dy.view();
  const auto sums = exec::sweep(exec::reads(va, vb), exec::updates(vx), exec::writes(vy), blend).wait();
  const double terms = 8 + std::sqrt(double(n));
  for (int k = 0; k < 3; ++k)
    check(std::abs(sums[k] - expected[k]) <=
              terms * std::numeric_limits<real_t<T>>::epsilon() * (1 + std::abs(expected[k])),
          message("blend sum ", k, " ", name, ": ", sums[k], " for ", expected[k]));
  check_close<T>(dx.host(), x, 8, "blend update " + name);
  check_close<T>(dy.host(), y, 8, "blend write " + name);
  check(da.intact() && db.intact() && dx.intact() && dy.intact() && da.host() == a && db.host() == b,
        "blend kept what it must not touch " + name);

  exec::sweep(exec::reads(va), exec::updates(vy), exec::writes(), Axpy<T>{number<T>(seed, 5)});
  exec::sweep(exec::reads(host_view(xs)), exec::updates(host_view(y)), exec::writes(), Axpy<T>{number<T>(seed, 5)});
  check_close<T>(dy.host(), y, 16, "axpy " + name);
  exec::sweep(exec::reads(vb), exec::updates(), exec::writes(vy), Copy<T>{});
  check(dy.host() == b && dy.intact(), "copy " + name);

  const T first = exec::sweep(exec::reads(va, vb), exec::updates(), exec::writes(), Dot<T>{}).wait()[0];
  bool same = true;
  for (int i = 0; i < 5; ++i)
    same = same && first == exec::sweep(exec::reads(va, vb), exec::updates(), exec::writes(), Dot<T>{}).wait()[0];
  check(same, "dot has the same bits again " + name);
  const T host_dot =
      exec::sweep(exec::reads(host_view(xs), host_view(ys)), exec::updates(), exec::writes(), Dot<T>{})[0];
  check(std::abs(first - host_dot) <= terms * std::numeric_limits<real_t<T>>::epsilon() * (1 + std::sqrt(double(n))),
        "dot " + name);
}

template <class T>
void forward(std::size_t n) {
  const std::string name = message("forward ", scalar_name<T>(), " n=", n);
  std::vector<std::vector<T>> v;
  for (int k = 0; k < 14; ++k) v.push_back(k < 11 ? numbers<T>(n, seed + k) : std::vector<T>(n, poison<T>()));
  std::vector<Guarded<T>> d;
  for (const auto& each : v) d.emplace_back(each, 0);
  const Forward<T> f{T(0.3), T(-0.7), T(0.9)};
  const auto run = [&](auto&& at) {
    return exec::numbers(exec::sweep(exec::reads(at(0), at(1), at(2), at(3), at(4), at(5), at(6)),
                                     exec::updates(at(7), at(8), at(9), at(10)), exec::writes(at(11), at(12), at(13)),
                                     f));
  };
  const auto got = run([&](int k) { return d[k].view(); });
  const auto expected = run([&](int k) { return host_view(v[k]); });
  for (int k = 0; k < 14; ++k) check_close<T>(d[k].host(), v[k], 16, message(name, " vector ", k));
  for (int k = 0; k < 2; ++k)
    check(std::abs(got[k] - expected[k]) <=
              (20 + std::sqrt(double(n))) * std::numeric_limits<real_t<T>>::epsilon() * (1 + double(n)),
          message(name, " sum ", k));
}

template <class T>
void basis(std::size_t n, std::size_t stride, int columns, std::size_t shift) {
  const std::string name =
      message(scalar_name<T>(), " n=", n, " stride=", stride, " columns=", columns, " shift=", shift);
  const auto q = numbers<T>(stride * columns, seed + 3), v = numbers<T>(n, seed + 4);
  Guarded<T> dq(q, shift), dv(v, shift);
  std::vector<const T*> p;
  for (int c = 0; c < columns; ++c) p.push_back(dq.view().data() + c * stride);
  T* const x = dv.view().data();
  std::vector<T> expected(columns + 1), got(columns + 1, poison<T>()), again(columns + 1);
  for (int c = 0; c <= columns; ++c)
    for (std::size_t i = 0; i < n; ++i) expected[c] += conj(c < columns ? q[c * stride + i] : v[i]) * v[i];
  exec::basis_dots<T, Device>(p.data(), columns, x, n, got.data(), true);
  check_close<T>(got, expected, 10 + std::sqrt(double(n)), "basis dots " + name);
  exec::basis_dots<T, Device>(p.data(), columns, x, n, again.data(), true);
  check(got == again, "basis dots have the same bits again " + name);
  const auto h = numbers<T>(columns, seed + 5);
  const T scale = number<T>(seed + 6, 0);
  auto w = v;
  T norm{};
  for (int c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < n; ++i) w[i] -= h[c] * q[c * stride + i];
  for (std::size_t i = 0; i < n; ++i) w[i] *= scale, norm += T(abs2(w[i]));
  const T square = exec::basis_subtract<T, Device>(p.data(), columns, h.data(), scale, x, n, true);
  check_close<T>(dv.host(), w, 8 + 2 * columns, "basis subtract " + name);
  check_close<T>(std::span<const T>(&square, 1), std::span<const T>(&norm, 1), 10 + 2 * columns + std::sqrt(double(n)),
                 "norm " + name);
  check(dv.intact() && dq.intact() && dq.host() == q, "basis subtract kept what it must not touch " + name);
}

template <class T>
void pairs(std::size_t n, int columns, std::size_t shift) {
  const std::string name = message(scalar_name<T>(), " n=", n, " columns=", columns, " shift=", shift);
  const int count = (columns + 1) / 2;
  std::vector<std::vector<T>> v, z;
  std::vector<Guarded<T>> dv, dz;
  std::vector<T*> pv, pz;
  for (int k = 0; k < count; ++k) {
    v.push_back(numbers<T>(2 * n, seed + 20 + k)), z.push_back(numbers<T>(2 * n, seed + 60 + k));
    if (2 * k + 1 == columns)  // the unused second column
      for (std::size_t i = 0; i < n; ++i) v[k][2 * i + 1] = z[k][2 * i + 1] = poison<T>();
    dv.emplace_back(v[k], shift), dz.emplace_back(z[k], shift);
  }
  for (int k = 0; k < count; ++k) pv.push_back(dv[k].view().data()), pz.push_back(dz[k].view().data());
  const auto shadow = numbers<T>(n, seed + 11);
  Guarded<T> ds(shadow, shift);
  using Wide = exec::wide_t<T>;
  const auto column = [](const auto& of, int c, std::size_t i) { return of[c / 2][2 * i + c % 2]; };
  const auto size = exec::pair_gram_size(columns, true);
  std::vector<Wide> expected(size), got(size, Wide(-7)), again(size);
  for (int b = 0; b < columns; ++b)
    for (std::size_t i = 0; i < n; ++i) {
      const Wide zb(column(z, b, i));
      for (int a = 0; a <= b; ++a) expected[std::size_t(b) * (b + 1) / 2 + a] += conj(Wide(column(v, a, i))) * zb;
      expected[exec::pair_gram_size(columns, false) + b] += conj(Wide(shadow[i])) * zb;
    }
  exec::pair_gram<T, Device>(pv.data(), pz.data(), columns, ds.view().data(), true, n, got.data());
  check_close<Wide>(got, expected, 10 + std::sqrt(double(n)), "pair gram " + name);
  exec::pair_gram<T, Device>(pv.data(), pz.data(), columns, ds.view().data(), true, n, again.data());
  check(got == again, "pair gram has the same bits again " + name);

  const auto a = numbers<T>(columns, seed + 12), c = numbers<T>(columns, seed + 13), e = numbers<T>(columns, seed + 14);
  auto first = std::vector<T>(2 * n), x = shadow;
  for (std::size_t i = 0; i < n; ++i)
    for (int k = 0; k < columns; ++k) {
      const T vk = column(v, k, i);
      first[2 * i] += a[k] * vk, first[2 * i + 1] += c[k] * vk, x[i] += e[k] * vk;
    }
  exec::pair_combine<T, Device>(pv.data(), columns, a.data(), c.data(), e.data(), ds.view().data(), n);
  check_close<T>(dv[0].host(), first, 8 + 2 * columns, "pair combine " + name);
  check_close<T>(ds.host(), x, 8 + 2 * columns, "pair combine, x " + name);
  exec::pair_put<T, Device>(ds.view().data(), 1, pv[0], n);
  auto put = dv[0].host();
  const auto put_x = ds.host();
  bool same = true;
  for (std::size_t i = 0; i < n; ++i) same = same && put[2 * i + 1] == put_x[i];
  check(same && dv[0].intact() && ds.intact(), "pair put " + name);
  double most = 0;
  for (const T& s : put_x) most = std::max(most, double(std::abs(s)));
  const double found = exec::largest_magnitude<T, Device>(pv[0] + 1, n, 2);
  check(std::abs(found - most) <= 4 * std::numeric_limits<real_t<T>>::epsilon() * most,
        message("largest magnitude ", name, ": ", found, " for ", most));
}

template <class T, class S>
void blocks(std::size_t n, int j, int s, double rounding) {
  const std::string name = message(scalar_name<T>(), " stored in ", sizeof(S), " bytes, n=", n, " j=", j, " s=", s);
  // Values that S represents exactly, so that storing does not round.
  auto q = numbers<T>(n * j, seed + 3);
  for (T& a : q) {
    if constexpr (is_complex<T>) a = {std::round(a.real() * 64) / 64, std::round(a.imag() * 64) / 64};
    else a = std::round(a * 64) / 64;
  }
  const auto v = numbers<T>(n * s, seed + 4), C = numbers<T>(std::size_t(j) * s, seed + 5),
             W = numbers<T>(std::size_t(s) * s, seed + 6);
  const auto wide = on_device(q);
  auto block = on_device(v);
  exec::Array<S, Device> stored(n * j), out(n * s);
  exec::store<T, Device, S>(wide.data(), stored.data(), n * j);
  std::vector<const S*> rows;
  std::vector<T*> columns;
  std::vector<S*> to;
  for (int i = 0; i < j; ++i) rows.push_back(stored.data() + i * n);
  for (int c = 0; c < s; ++c) columns.push_back(block.data() + c * n), to.push_back(out.data() + c * n);
  const double tolerance = 20 + 2 * std::sqrt(double(n));
  const auto gram_of = [&](const std::vector<T>& x) {
    std::vector<T> G(std::size_t(j + s) * s);
    for (int c = 0; c < s; ++c)
      for (int i = 0; i < j + s; ++i)
        for (std::size_t e = 0; e < n; ++e)
          G[c * (j + s) + i] += conj(i < j ? q[i * n + e] : x[(i - j) * n + e]) * x[c * n + e];
    return G;
  };
  std::vector<T> G(std::size_t(j + s) * s), again(G.size());
  exec::block_gram<T, Device, S>(rows.data(), j, columns.data(), s, n, G.data());
  check_close<T>(G, gram_of(v), tolerance, "block dots " + name);
  exec::block_gram<T, Device, S>(rows.data(), j, columns.data(), s, n, again.data());
  check(G == again, "block dots have the same bits again " + name);
  std::vector<T> expected(n * s);
  double terms = 0;  // the largest sum of magnitudes in a column: rounding errors are relative to it
  for (int c = 0; c < s; ++c)
    for (std::size_t e = 0; e < n; ++e) {
      double magnitudes = 0;
      for (int l = 0; l <= c; ++l) {
        T left = v[l * n + e];
        double size = std::abs(left);
        for (int i = 0; i < j; ++i) {
          const T term = q[i * n + e] * C[l * j + i];
          left -= term, size += double(std::abs(term));
        }
        expected[c * n + e] += left * W[c * s + l];
        magnitudes += size * double(std::abs(W[c * s + l]));
      }
      terms = std::max(terms, magnitudes);
    }
  exec::block_update_gram<T, Device, S>(rows.data(), j, C.data(), columns.data(), s, W.data(), n, G.data());
  check_close<T>(to_host(block), expected, 20. * (j + s), "block update " + name);
  check_close<T>(G, gram_of(expected), tolerance * (j + s) * (j + s), "block update and dots " + name);
  exec::copy_to_device(block.data(), v.data(), v.size() * sizeof(T));
  exec::block_update_stored<T, Device, S>(rows.data(), j, C.data(), columns.data(), s, W.data(), to.data(), n);
  const auto got = to_host(block);
  check_close<T>(std::span<const T>(got).last(n), std::span<const T>(expected).last(n), 20. * (j + s),
                 "last column " + name);
  // The stored columns read as T: added to zero with weight 1.
  exec::Array<T, Device> sum(n);
  const T one(1);
  for (int c = 0; c < s; ++c) {
    exec::clear_on_device(sum.data(), n * sizeof(T));
    const S* from = to[c];
    T* x = sum.data();
    exec::block_combine_stored<T, Device, S>(&from, 1, &one, &x, 1, n);
    const auto column = to_host(sum);
    double worst = 0, size = 0;
    for (std::size_t e = 0; e < n; ++e)
      worst = std::max(worst, double(std::abs(column[e] - expected[c * n + e]))),
      size = std::max(size, double(std::abs(column[e])));
    check(worst <= rounding * size + (sizeof(real_t<T>) == 4 ? 1e-5 : 1e-12) * terms, "stored column " + name);
  }
}

template <class T, class A>
void product(const Matrix<T>& a, const A& stored, int k, const std::string& format) {
  const std::string name =
      message(format, " ", scalar_name<T>(), " ", a.rows, "x", a.columns, " entries=", a.entries(), " k=", k);
  const auto x = numbers<T>(std::size_t(a.columns) * k, seed + 6), old = numbers<T>(std::size_t(a.rows) * k, seed + 7);
  const auto dx = on_device(x);
  for (const bool add : {false, true}) {
    auto expected = old;
    host_product(a, x.data(), expected.data(), k, add);
    Guarded<T> dy(add ? old : std::vector<T>(old.size(), poison<T>()), 0);
    op::device_product(stored.view(), dx.view(), dy.view(), k, add ? op::Into::add : op::Into::overwrite);
    check_close<T>(dy.host(), expected, 64, name + (add ? " add" : ""));
    check(dy.intact(), "within y: " + name);
  }
}

template <class T>
void products(const Matrix<T>& a) {
  for (const int k : {1, 2, 3, 4, 8, 12}) {
    if (small && k != 1 && k != 4) continue;
    product(a, Csr<T, std::int32_t, Local>(a), k, "csr32");
    product(a, Csr<T, std::int64_t, Local>(a), k, "csr64");
    product(a, Csr<T, std::int64_t, std::int16_t>(a), k, "csr64 16-bit");
    product(a, Sell<T, Local>(a, 256), k, "sell sorted");
    product(a, Sell<T, Local>(a, 1), k, "sell");
    product(a, Sell<T, std::int16_t>(a, 1), k, "sell 16-bit");
  }
}

/// Solves with factors of `n` rows in chains: each row has about `entries` of the rows of its chain before it.
template <class T>
void triangular(Local n, Local chain, int entries, int k) {
  const std::string name =
      message("triangular ", scalar_name<T>(), " n=", n, " chains of ", chain, " entries=", entries, " k=", k);
  precond::TriangularFactors<T> f;
  std::uint64_t drawn = 0;
  const auto strict = [&](bool is_upper) {
    op::LocalRows<T> s;
    s.columns = n;
    for (Local i = 0; i < n; ++i) {
      const Local first = i / chain * chain, last = std::min(n, first + chain);
      const Local others = is_upper ? last - i - 1 : i - first;
      std::vector<Local> column;
      for (int e = 0; e < entries && others > 0; ++e) {
        const Local far = e == 0 ? 0 : below(others, seed + 30, ++drawn);
        column.push_back(is_upper ? i + 1 + far : i - 1 - far);
      }
      std::sort(column.begin(), column.end());
      column.erase(std::unique(column.begin(), column.end()), column.end());
      for (const Local c : column)
        s.column.push_back(c), s.value.push_back(number<T>(seed + 31, ++drawn) * T(real_t<T>(0.5 / entries)));
      s.start.push_back(Global(s.column.size()));
    }
    return s;
  };
  f.lower = strict(false), f.upper = strict(true);
  f.upper_inverse = numbers<T>(n, seed + 32);
  f.row.resize(n);
  std::iota(f.row.rbegin(), f.row.rend(), 0);
  f.column = f.row;
  const auto x = numbers<T>(std::size_t(n) * k, seed + 33);
  std::vector<T> w(x.size()), expected(x.size());
  for (int c = 0; c < k; ++c) {
    const auto at = [&](Local i) { return std::size_t(i) * k + c; };
    const auto row = [&](const op::LocalRows<T>& s, Local i) {
      for (Global e = s.start[i]; e < s.start[i + 1]; ++e) w[at(i)] -= s.value[e] * w[at(s.column[e])];
    };
    for (Local i = 0; i < n; ++i) w[at(i)] = x[at(f.row[i])], row(f.lower, i);
    for (Local i = n; i-- > 0;) row(f.upper, i), w[at(i)] *= f.upper_inverse[i], expected[at(f.column[i])] = w[at(i)];
  }
  precond::TriangularOnDevice<T, Device> solver(f);
  const auto dx = on_device(x);
  for (int again = 0; again < 2; ++again) {
    Guarded<T> y(std::vector<T>(x.size(), poison<T>()), 0);
    solver.load(dx.data(), k);
    solver.solve();
    solver.store(y.view().data());
    check_close<T>(y.host(), expected, 64, name);
    check(y.intact(), "within y: " + name);
  }
}

template <class T>
void gathers(Local n, int k) {
  const std::string name = message(scalar_name<T>(), " n=", n, " k=", k);
  std::vector<Local> index(n), distinct(n);
  for (Local i = 0; i < n; ++i) index[i] = below(n, seed + 8, i);
  std::iota(distinct.rbegin(), distinct.rend(), 0);
  const auto x = numbers<T>(std::size_t(n) * k, seed + 9);
  const auto dx = on_device(x), d_from = on_device(x);
  const auto di = on_device(index), dd = on_device(distinct);
  Guarded<T> out(std::vector<T>(x.size(), poison<T>()), 0);
  exec::device_gather<T>(dx.view(), di.view(), out.view(), k);
  std::vector<T> expected(x.size());
  for (Local i = 0; i < n; ++i)
    for (int c = 0; c < k; ++c) expected[std::size_t(i) * k + c] = x[std::size_t(index[i]) * k + c];
  check(out.host() == expected && out.intact(), "gather " + name);
  for (const bool once : {true, false}) {
    Guarded<T> y(x, 0);
    auto sum = x;
    const auto& to = once ? distinct : index;
    for (Local i = 0; i < n; ++i)
      for (int c = 0; c < k; ++c) sum[std::size_t(to[i]) * k + c] += x[std::size_t(i) * k + c];
    exec::device_scatter_add<T>(d_from.view(), (once ? dd : di).view(), y.view(), k,
                                once ? exec::Indices::distinct : exec::Indices::repeated);
    check_close<T>(y.host(), sum, 64, "scatter " + name + (once ? " distinct" : ""));
    check(y.intact(), "scatter stays inside " + name);
  }
}

template <class T>
void all() {
  for (const std::size_t n : {0, 1, 2, 3, 31, 255, 256, 257, 1023, 4097, 100003, 3000001}) {
    if (small && n > 5000) continue;
    sweeps<T>(n, 0);
    sweeps<T>(n, 1);
    if (n < 1000000) forward<T>(n);
  }
  for (const std::size_t n : {0, 1, 7, 256, 1001, 70001})
    for (const int columns : {0, 1, 7, 8, 9, 64, 70, 130}) {
      if (small && (n > 2000 || columns > 9)) continue;
      basis<T>(n, (n + 3) / 4 * 4, columns, 0);
      basis<T>(n, n + 1, columns, 1);
    }
  for (const std::size_t n : {1, 7, 256, 1001, 70001})
    for (const int columns : {1, 2, 5, 17, 33, 70}) {
      if (small && (n > 2000 || columns > 17)) continue;
      pairs<T>(n, columns, 0);
      pairs<T>(n, columns, 1);
    }
  for (const std::size_t n : {1, 7, 256, 1001, 4099})
    for (const auto& [j, s] : {std::pair{0, 1}, std::pair{1, 5}, std::pair{21, 10}, std::pair{70, 3}}) {
      if (small && (n > 2000 || j > 21)) continue;
      blocks<T, T>(n, j, s, 0);
      blocks<T, exec::Short<T>>(n, j, s, 4e-3);
      if constexpr (std::same_as<real_t<T>, double>) blocks<T, exec::Single<T>>(n, j, s, 6e-8);
    }
  products(awkward<T>(0, 5, 3, false, seed));
  products(awkward<T>(5, 0, 3, false, seed));
  products(awkward<T>(1, 1, 1, true, seed));
  products(awkward<T>(131, 97, 5, false, seed));
  products(awkward<T>(1000, 1000, 40, true, seed));
  if (!small) products(awkward<T>(30001, 30001, 100, true, seed));
  for (const int k : {1, 2, 3, 4}) {
    triangular<T>(0, 1, 1, k);
    triangular<T>(300, 300, 2, k);   // a row a level
    triangular<T>(1000, 50, 30, k);  // narrow levels of long rows
    triangular<T>(1800, 2, 1, k);    // wide levels
    if (small) continue;
    triangular<T>(40000, 40, 3, k);
    triangular<T>(100000, 100, 40, k);
  }
  for (const Local n : {0, 1, 33, 1000, 100001})
    for (const int k : {1, 3})
      if (!small || n < 2000) gathers<T>(n, k);
}

/// Passes of multigrid, whole cycles and coarsest-level solves compared with the same kernels on the host.
template <class T>
void cells(int n, bool periodic, bool constant) {
  using precond::Smoother;
  using Host_ = precond::mg::DeviceLevels<T, Host>;
  using Device_ = precond::mg::DeviceLevels<T, Device>;
  const CubeLevels<T> cube({n, periodic, constant, 4});
  const auto size = std::size_t(n) * std::size_t(n) * std::size_t(n);
  const auto f = numbers<T>(size, seed + 11), u = numbers<T>(size, seed + 12);
  const auto df = on_device(f), du = on_device(u);
  for (const auto smoother : {Smoother::gauss_seidel, Smoother::chebyshev}) {
    if (constant && smoother == Smoother::chebyshev) continue;  // needs stored coefficients
    precond::MultigridOptions options;
    options.smoother = smoother;
    const std::string name = message("cells ", scalar_name<T>(), " n=", n, periodic ? " periodic" : " walls",
                                     constant ? " constant " : " stored ", int(smoother));
    // Coarsest-level solves as exact as T allows, because sums of teams and of one thread differ.
    const double exact = sizeof(T) == 4 ? 1e-4 : 1e-11;
    Host_ host(cube.data(), options, {0, exact, 1000, 0});
    Device_ device(cube.data(), options, {0, exact, 1000, 0});
    const auto compare = [&](double terms, const std::string& what) {
      std::vector<T> expected(size);
      host.store_u(expected.data());
      Guarded<T> out(std::vector<T>(size, poison<T>()), 0);
      device.store_u(out.view().data());
      check_close<T>(out.host(), expected, terms, what + " of " + name);
      check(out.intact(), what + " stays inside " + name);
    };
    host.load_f(f.data()), device.load_f(df.data());
    host.load_u(u.data()), device.load_u(du.data());
    compare(0, "load and store");
    for (auto& step : {std::pair{0, false}, std::pair{1, false}, std::pair{0, true}}) {
      host.half_sweep(0, step.first, step.second), device.half_sweep(0, step.first, step.second);
      compare(32, "half sweep");
    }
    const auto there = host.norms(precond::mg::Quantity::residual),
               here = device.norms(precond::mg::Quantity::residual);
    check(std::abs(here.largest - there.largest) <= 1e-3 * there.largest &&
              std::abs(here.squares - there.squares) <= 1e-3 * there.squares,
          message("norms of ", name, ": ", here.largest, " for ", there.largest));
    host.smooth(0, 2, false), device.smooth(0, 2, false);
    compare(256, "smoother");
    for (const auto kind : {precond::Cycle::v, precond::Cycle::f})
      host.cycle(kind, kind == precond::Cycle::v), device.cycle(kind, kind == precond::Cycle::v);
    compare(exact * 1e2 / double(std::numeric_limits<T>::epsilon()), "cycles");
    const auto counts = device.counts();
    // One of the V-cycle; of the F-cycle the first and one of the V-cycle of each finer level.
    check(counts.solves == 1 + device.levels() && counts.failures == 0 && counts.iterations > 0, "bottoms of " + name);
  }
}

/// After the first calls nothing is allocated.
void allocations() {
  const auto v = numbers<double>(5000, 1);
  Guarded<double> a(v, 0), q(v, 0);
  auto view = a.view();
  std::vector<double> h(4);
  const double* p[4];
  for (int c = 0; c < 4; ++c) p[c] = q.view().data() + 1000 * c;
  const auto work = [&] {
    exec::sweep(exec::reads(view, view), exec::updates(), exec::writes(), Dot<double>{}).wait();
    exec::basis_dots<double, Device>(p, 4, a.view().data(), 1000, h.data(), false);
    exec::basis_subtract<double, Device>(p, 4, h.data(), 1, a.view().data(), 1000, true);
  };
  work();
  std::size_t before = 0, after = 0, total = 0;
  exec::check_cuda(cudaMemGetInfo(&before, &total), "cudaMemGetInfo");
  for (int i = 0; i < 100; ++i) work();
  exec::check_cuda(cudaMemGetInfo(&after, &total), "cudaMemGetInfo");
  check(before == after, "no allocation after the first call");
}

/// A call that CUDA refuses throws an Error with the call's name and CUDA's message, and the next call works.
void errors() {
  std::string text;
  try {
    exec::device_allocate(std::size_t(1) << 60);
  } catch (const Error& e) {
    text = e.kind() == ErrorKind::environment ? e.what() : "wrong kind";
  }
  check(text.find("cudaMalloc") != std::string::npos && text.find("out of memory") != std::string::npos,
        "allocation error: " + text);
  check(to_host(on_device(std::vector<int>{1, 2, 3})) == std::vector<int>{1, 2, 3}, "a copy after an error");
}

}  // namespace
}  // namespace tacit::device

int main(int count, char** words) {
  using namespace tacit;
  device::seed = std::uint64_t(std::time(nullptr));
  for (int i = 1; i < count; ++i)
    if (std::strcmp(words[i], "--small") == 0) device::small = true;
    else if (std::strcmp(words[i], "--seed") == 0 && i + 1 < count)
      device::seed = std::strtoull(words[++i], nullptr, 10);
    else return std::fprintf(stderr, "usage: device_test [--small] [--seed N]\n"), 2;
  if (!exec::device_available()) return std::puts("no GPU"), 77;
  try {
    std::printf("%s, seed %llu\n", exec::device_name().c_str(), static_cast<unsigned long long>(device::seed));
#define TACIT_CALL(T) device::all<T>();
    TACIT_EACH_SCALAR(Device, TACIT_CALL)
    for (const bool periodic : {true, false})
      for (const bool constant : {true, false})
        for (const int n : {8, 16, 24, 64}) {
          if (device::small && n > 16) continue;
          device::cells<float>(n, periodic, constant);
          device::cells<double>(n, periodic, constant);
        }
    device::allocations();
    device::errors();
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    ++device::failures;
  }
  std::printf("%d checks, %d failures\n", device::checks, device::failures);
  return device::failures == 0 ? 0 : 1;
}
