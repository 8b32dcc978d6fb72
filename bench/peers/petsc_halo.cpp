// The halo exchange of bench_halo as PETSc's scatter: petsc_halo [STRIDE=2] [PETSc options]. Prints microseconds for
// each size.
#include <petscvec.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  PetscInitialize(&argc, &argv, nullptr, nullptr);
  const PetscInt stride = argc > 1 && std::atoi(argv[1]) > 0 ? std::atoi(argv[1]) : 2;
  PetscMPIInt rank, size;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  MPI_Comm_size(PETSC_COMM_WORLD, &size);
  const PetscInt partner = rank ^ 1;
  PetscPrintf(PETSC_COMM_WORLD, "PETSc       ");
  for (const PetscInt n : {1024, 4096, 16384, 65536}) {
    const PetscInt length = n * stride, wanted = partner < size ? n : 0;
    Vec x, ghosts;
    VecCreateMPI(PETSC_COMM_WORLD, length, PETSC_DETERMINE, &x);
    VecCreateSeq(PETSC_COMM_SELF, wanted, &ghosts);
    std::vector<PetscInt> index(wanted);
    for (PetscInt i = 0; i < wanted; ++i) index[i] = partner * length + i * stride;
    IS from, to;
    ISCreateGeneral(PETSC_COMM_SELF, wanted, index.data(), PETSC_COPY_VALUES, &from);
    ISCreateStride(PETSC_COMM_SELF, wanted, 0, 1, &to);
    VecScatter scatter;
    VecScatterCreate(x, from, ghosts, to, &scatter);
    double least = 1e9, sum = 0;
    double* values;
    const double* arrived;
    for (int round = 0; round < 400; ++round) {
      const double begin = MPI_Wtime();
      VecGetArray(x, &values);
      for (PetscInt i = 0; i < length; ++i) values[i] = round;
      VecRestoreArray(x, &values);
      VecScatterBegin(scatter, x, ghosts, INSERT_VALUES, SCATTER_FORWARD);
      VecScatterEnd(scatter, x, ghosts, INSERT_VALUES, SCATTER_FORWARD);
      VecGetArrayRead(ghosts, &arrived);
      double part[4] = {};
      for (PetscInt i = 0; i + 3 < wanted; i += 4)
        for (int l = 0; l < 4; ++l) part[l] += arrived[i + l];
      sum += part[0] + part[1] + part[2] + part[3] - double(round) * double(wanted);
      VecRestoreArrayRead(ghosts, &arrived);
      if (round % 20 > 2) least = std::min(least, MPI_Wtime() - begin);
      if (round % 20 == 19) MPI_Barrier(PETSC_COMM_WORLD);
    }
    double slowest;
    MPI_Allreduce(&least, &slowest, 1, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD);
    PetscPrintf(PETSC_COMM_WORLD, " %12.2f%s", 1e6 * slowest, sum == 0 ? "" : " WRONG");
    VecScatterDestroy(&scatter);
    ISDestroy(&from);
    ISDestroy(&to);
    VecDestroy(&x);
    VecDestroy(&ghosts);
  }
  PetscPrintf(PETSC_COMM_WORLD, "\n");
  PetscFinalize();
  return 0;
}
