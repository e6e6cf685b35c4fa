#include "cluster/links/gather.hpp"

#include <chrono>
#include <thread>

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {

void all_gather(Transport& transport, std::span<const std::byte> bytes, std::span<std::byte> all) {
  const int count = static_cast<int>(bytes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  transport.run([&] {
    check_mpi(MPI_Iallgather(bytes.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, transport.world().control, &request),
              "MPI_Iallgather");
  });
  for (int done = 0; !done;) {  // the transport thread must not block in MPI
    transport.run([&] { check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"); });
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace millrace::cluster
