// Orthogonalisation of blocks of vectors: s vectors against a basis and among themselves, with few reductions.
//
//   V = Q C + Q' U,   [Q Q'] orthonormal, U upper triangular with a positive diagonal;   R = [C; U]
//
// U is a Cholesky factor. A linearly dependent column does not throw: the columns before it are completed, and their
// number is returned. kappa below is the condition number of [Q V].
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/layout/vector.hpp>

#include <span>
#include <vector>

namespace tacit::krylov {

/// The result for a block.
struct Orthogonalised {
  int columns = 0;    ///< leading columns that are complete; fewer than the block's: the next one failed
  double least = 1;   ///< smallest u_kk^2 / (v_k, v_k) of the complete columns: about 1 / kappa^2
  double failed = 0;  ///< the same ratio of the column that failed: <= rounding, or not finite
};

/// Makes the columns of v orthogonal to the orthonormal q and orthonormal among themselves, in place; R = [C; U],
/// (q.size() + v.size()) x v.size(), stored by columns. Where a column fails (columns < v.size()) the later columns of
/// v and R are undefined.
///
///   how        reductions      passes over q   ||I - Q^H Q||        needs
///   bcgs       1 + block_qr    2               eps kappa^2 (*)      what block_qr needs
///   bcgs2      2 + 2 block_qr  4               eps                  eps kappa^2 < 1 (*)
///   bcgs_pip   1               2               eps kappa^2          eps kappa^2 < 1
///   bcgs_pip2  2               3               eps                  eps kappa^2 < 1
///   two_stage  s / small + 1   2 + 2 s / small eps                  eps kappa^2 < 1 for each block of `small`
///   (*) with a block_qr that itself reaches eps
///
/// bcgs_pip forms the Gram matrix of V - Q C by Pythagoras, V^H V - C^H C, so that one reduction of j s + s (s + 1) / 2
/// numbers gives C and U (j = q.size(), s = v.size()). bcgs_pip2 does so twice, and forms the second sums during the
/// first update, so that Q is read three times instead of four. Carson, Lund, Rozloznik, Thomas (2022), doi
/// 10.1016/j.laa.2021.12.017; two_stage: Yamazaki, Higham, Boman, Szyld (2024), arXiv 2402.15033. automatic is
/// bcgs_pip2. Collective. Error(usage): a choice for single vectors, small < 1, vectors of different spaces or of
/// several columns.
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
