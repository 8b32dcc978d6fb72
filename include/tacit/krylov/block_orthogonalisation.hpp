// Orthogonalisation of blocks of vectors: s vectors against a basis and among themselves, for one or two sums.
//
//   V = Q C + Q' U,   [Q Q'] orthonormal, U upper triangular with a positive diagonal;   R = [C; U]
//
// The block's factor is a Cholesky factor. A column that depends on those before it is no exception but a value: what
// is complete up to there is kept and told. kappa below is the condition number of [Q V].
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/layout/vector.hpp>

#include <span>
#include <vector>

namespace tacit::krylov {

/// What came of a block.
struct Orthogonalised {
  int columns = 0;    ///< leading columns that are complete; fewer than the block's: the next one failed
  double least = 1;   ///< least u_kk^2 / (v_k, v_k) of the complete columns: about 1 / kappa^2
  double failed = 0;  ///< the same of the column that failed: <= rounding, or not finite
};

/// The columns of v, orthogonal to the orthonormal q and orthonormal, in place; R = [C; U], (q.size() + v.size()) x
/// v.size(), column after column. Where a column fails (columns < v.size()) the later columns of v and R are undefined.
///
///   how        reductions      passes over q   ||I - Q^H Q||        needs
///   bcgs       1 + block_qr    2               eps kappa^2 (*)      what block_qr needs
///   bcgs2      2 + 2 block_qr  4               eps                  eps kappa^2 < 1 (*)
///   bcgs_pip   1               2               eps kappa^2          eps kappa^2 < 1
///   bcgs_pip2  2               3               eps                  eps kappa^2 < 1
///   two_stage  s / small + 1   2 + 2 small / s eps                  eps kappa^2 < 1 for each block of `small`
///   (*) with a block_qr that itself reaches eps
///
/// bcgs_pip takes the Gram matrix of what is left by Pythagoras, V^H V - C^H C, so that one sum of j s + s (s + 1) / 2
/// numbers serves C and U. bcgs_pip2 does so twice, and forms the second sums while it does the first update: Q is read
/// three times, not four. Carson, Lund, Rozloznik, Thomas (2022), doi 10.1016/j.laa.2021.12.017; two_stage: Yamazaki,
/// Higham, Boman, Szyld (2024), arXiv 2402.15033. automatic is bcgs_pip2. Collective. Error(usage) for the choices of
/// single vectors, and for spaces that differ.
template <Scalar T, Memory M>
Orthogonalised block_orthogonalise(Orthogonalisation how, BlockQr block_qr,
                                   std::span<const layout::Vector<T, M>* const> q,
                                   std::span<layout::Vector<T, M>* const> v, std::vector<T>& R, int small = 5);

/// V = Q R in place, R s x s upper triangular with a positive diagonal (tsqr: real, >= 0).
///
///   how              reductions  passes over V (read + written)  ||I - Q^H Q||   needs
///   cholqr           1           2 + 1                           eps kappa^2     eps kappa^2 < 1
///   cholqr2          2           3 + 2                           eps             eps kappa^2 < 1
///   shifted_cholqr3  3 (4 *)     4 + 3                           eps             eps kappa < 1
///   mixed_cholqr     1           2 + 1                           eps kappa       eps kappa < 1
///   tsqr             1           4 + 3                           eps             nothing
///   (*) where kappa is near 1 / eps: a second shifted round
///
/// cholqr2: Yamamoto et al. (2015), doi 10.1553/etna_vol44s306; shifted: Fukaya et al. (2020), doi 10.1137/18M1218212;
/// mixed (Gram matrix and Cholesky factor in twice the digits): Yamazaki, Tomov, Dongarra (2015), doi
/// 10.1137/14M0973773; tsqr: Demmel et al. (2012), doi 10.1137/080731992. mixed_cholqr and tsqr send one s x s triangle
/// for each rank to all (a sum of P s (s + 1) / 2 numbers, twice that for mixed). Collective.
template <Scalar T, Memory M>
Orthogonalised block_qr(BlockQr how, std::span<layout::Vector<T, M>* const> v, std::vector<T>& R);

}  // namespace tacit::krylov
