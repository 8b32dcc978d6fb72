// make over both memory spaces; instantiated by make.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>
#include <tacit/precond/polynomial.hpp>
#include <tacit/precond/spai.hpp>

#include <charconv>
#include <optional>

namespace tacit::precond {

namespace detail {

enum class Kind { none, jacobi, block_jacobi, ilu0, ic0, spai, fsai, polynomial };
inline constexpr Names<Kind, 8> kinds{{{{Kind::none, "none"},
                                        {Kind::jacobi, "jacobi"},
                                        {Kind::block_jacobi, "block-jacobi"},
                                        {Kind::ilu0, "ilu0"},
                                        {Kind::ic0, "ic0"},
                                        {Kind::spai, "spai"},
                                        {Kind::fsai, "fsai"},
                                        {Kind::polynomial, "polynomial"}}}};
inline constexpr Names<Kind, 4> solvers{
    {{{Kind::ilu0, "ilu0"}, {Kind::ic0, "ic0"}, {Kind::spai, "spai"}, {Kind::fsai, "fsai"}}}};
inline constexpr Names<PolynomialKind, 2> polynomials{
    {{{PolynomialKind::chebyshev, "chebyshev"}, {PolynomialKind::neumann, "neumann"}}}};

/// Options as they are asked for: what nobody has asked for in the end is unknown.
class Reader {
 public:
  Reader(std::string_view of, const Options& options) : of_(of), options_(options) {}
  std::optional<std::string> text(const char* name) {
    known_.push_back(name);
    const auto found = options_.find(name);
    if (found == options_.end()) return {};
    return found->second;
  }
  template <class Number>
  std::optional<Number> number(const char* name) {
    const auto given = text(name);
    if (!given) return {};
    Number value{};
    const auto [end, code] = std::from_chars(given->data(), given->data() + given->size(), value);
    require(code == std::errc() && end == given->data() + given->size(), "option ", name, " of the ", of_,
            " preconditioner is \"", *given, "\"; ", std::integral<Number> ? "a whole number" : "a number",
            " is needed");
    return value;
  }
  bool flag(const char* name) {
    const auto given = text(name);
    if (!given) return false;
    const bool yes = *given == "true" || *given == "True" || *given == "1";
    require(yes || *given == "false" || *given == "False" || *given == "0", "option ", name, " of the ", of_,
            " preconditioner is \"", *given, "\"; true or false is needed");
    return yes;
  }
  void refuse_the_rest() const {
    for (const auto& [name, value] : options_) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      require(!known_.empty(), "the ", of_, " preconditioner has no options; \"", name, "\" was given");
      std::string all, nearest = known_.front();
      for (const auto& k : known_) {
        all += (all.empty() ? "" : ", ") + k;
        if (edit_distance(name, k) < edit_distance(name, nearest)) nearest = k;
      }
      throw Error(ErrorKind::usage, message("unknown option \"", name, "\" of the ", of_,
                                            " preconditioner; did you mean \"", nearest, "\"? (", all, ")"));
    }
  }

 private:
  std::string of_;
  const Options& options_;
  std::vector<std::string> known_;
};

}  // namespace detail

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make(std::string_view name, const op::Csr<T, M>& A, const Options& options) {
  using detail::Kind;
  using Made = std::unique_ptr<op::Operator<T, M>>;
  return comm::collective(A.range().comm(), [&]() -> Made {
    detail::Reader read(name, options);
    Kind kind = detail::kinds.value(name, "preconditioner");
    bool local = false;
    if (kind == Kind::block_jacobi) {
      kind = detail::solvers.value(read.text("solver").value_or("ilu0"), "block-jacobi solver");
      local = true;
    }
    switch (kind) {
      case Kind::none:
        read.refuse_the_rest();
        return nullptr;
      case Kind::jacobi: {
        const bool absolute = read.flag("absolute");
        read.refuse_the_rest();
        return std::make_unique<Jacobi<T, M>>(A, absolute);
      }
      case Kind::block_jacobi:
      case Kind::ilu0:
      case Kind::ic0: {
        const int blocks = read.number<int>("blocks").value_or(1);
        read.refuse_the_rest();
        if constexpr (std::same_as<M, Host>)
          return std::make_unique<BlockJacobi<T>>(A, kind == Kind::ic0 ? Factorisation::ic0 : Factorisation::ilu0,
                                                  blocks);
        throw Error(ErrorKind::usage, message("the ", name,
                                              " preconditioner works in host memory; jacobi, spai, fsai and "
                                              "polynomial work on the device too"));
      }
      case Kind::spai:
      case Kind::fsai: {
        if (!local) local = read.flag("local");
        read.refuse_the_rest();
        return std::make_unique<Spai<T, M>>(A, SpaiOptions{kind == Kind::fsai, local});
      }
      case Kind::polynomial: {
        PolynomialOptions o;
        if (const auto given = read.text("kind")) o.kind = detail::polynomials.value(*given, "kind of polynomial");
        o.degree = read.number<int>("degree").value_or(o.degree);
        if (o.kind == PolynomialKind::chebyshev) {
          o.lambda_min = read.number<double>("lambda_min");
          o.lambda_max = read.number<double>("lambda_max");
        } else {
          o.relaxation = read.number<double>("relaxation").value_or(o.relaxation);
        }
        read.refuse_the_rest();
        return std::make_unique<Polynomial<T, M>>(A, o);
      }
    }
    return nullptr;
  });
}

}  // namespace tacit::precond
