// The minimum that mpirun can start: MPI_Init and MPI_Finalize.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Finalize();
  return 0;
}
