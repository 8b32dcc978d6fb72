#include "sparse_lu.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <new>

#ifdef TACIT_HAVE_EIGEN
// One thread: the same bits for any number of them. MPL2 only: none of the few files under another licence.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_MPL2_ONLY
#include <Eigen/SparseCore>
#include <Eigen/SparseLU>
#endif

namespace tacit::precond {
namespace {

// Dense blocks of the factors hold some zeros, and a pivot off the diagonal fills in more.
constexpr double margin = 1.2;
// Columns that are factorised together.
constexpr int panel = 16;

}  // namespace

double sparse_lu_bytes(double entries, double own_entries, double n, std::size_t scalar) {
  const double w = double(scalar), index = sizeof(std::int64_t);
  return margin * entries * (w + index) + 3 * own_entries * (w + index) + n * (panel * (w + 2 * index) + 20 * index);
}

#ifdef TACIT_HAVE_EIGEN

template <class W>
struct SparseLu<W>::Factors {
  using Matrix = Eigen::SparseMatrix<W, Eigen::ColMajor, std::int64_t>;
  using Dense = Eigen::Matrix<W, Eigen::Dynamic, Eigen::Dynamic>;
  using Library = Eigen::SparseLU<Matrix, Eigen::NaturalOrdering<std::int64_t>>;

  // The order is that of the columns as they are; the library may only postorder the tree of A^H A.
  class Lu : public Library {
   public:
    Lu(double entries, double own_entries) {
      this->setPivotThreshold(0.1);
      this->isSymmetric(true);
      this->m_perfv.panel_size = panel;
      const double ratio = margin * entries / 2 / std::max(own_entries, 1.0);
      this->m_perfv.fillfactor = Eigen::Index(std::clamp(std::ceil(ratio), 2.0, 1e6)) + 1;
    }
    bool is_made() const { return this->m_factorizationIsOk; }
    /// The first column without a pivot: its row has not been taken by any column.
    std::int64_t stopped_at() const {
      std::int64_t done = 0;
      const auto& rows = this->m_perm_r.indices();
      for (Eigen::Index i = 0; i < rows.size(); ++i) done = std::max<std::int64_t>(done, rows[i]);
      return done;
    }
    std::string says() const { return this->m_lastError; }
  };

  std::unique_ptr<Lu> lu;
  std::int64_t zero_pivot = -1;
};

template <class W>
SparseLu<W>::SparseLu(const ByColumns<W>& a, double entries) : factors_(std::make_unique<Factors>()) {
  using Matrix = typename Factors::Matrix;
  const auto n = a.count();
  if (n == 0) return;
  const Eigen::Map<const Matrix> given(n, n, std::int64_t(a.row.size()), a.start.data(), a.row.data(), a.value.data());
  const Matrix matrix = given;
  factors_->lu = std::make_unique<typename Factors::Lu>(entries, double(a.row.size()));
  auto& lu = *factors_->lu;
  lu.analyzePattern(matrix);
  lu.factorize(matrix);
  if (lu.is_made()) return;
  // What stops it otherwise is memory.
  if (lu.says().find("SINGULAR") == std::string::npos) throw std::bad_alloc();
  factors_->zero_pivot = lu.stopped_at();
  factors_->lu.reset();
}

template <class W>
SparseLu<W>::~SparseLu() = default;

template <class W>
std::int64_t SparseLu<W>::zero_pivot() const {
  return factors_->zero_pivot;
}

template <class W>
double SparseLu<W>::entries() const {
  return factors_->lu ? double(factors_->lu->nnzL()) + double(factors_->lu->nnzU()) : 0;
}

template <class W>
void SparseLu<W>::solve(W* x, std::int64_t columns, bool adjoint) const {
  if (!factors_->lu) return;
  using Dense = typename Factors::Dense;
  auto& lu = *factors_->lu;
  Eigen::Map<Dense> all(x, lu.rows(), columns);
  const Dense right = all;
  Dense left(lu.rows(), columns);
  if (adjoint) left = lu.adjoint().solve(right);
  else left = lu.solve(right);
  all = left;
}

#else

template <class W>
struct SparseLu<W>::Factors {};
template <class W>
SparseLu<W>::SparseLu(const ByColumns<W>&, double) {}
template <class W>
SparseLu<W>::~SparseLu() = default;
template <class W>
std::int64_t SparseLu<W>::zero_pivot() const {
  return -1;
}
template <class W>
double SparseLu<W>::entries() const {
  return 0;
}
template <class W>
void SparseLu<W>::solve(W*, std::int64_t, bool) const {}

#endif

template class SparseLu<double>;
template class SparseLu<std::complex<double>>;

}  // namespace tacit::precond
