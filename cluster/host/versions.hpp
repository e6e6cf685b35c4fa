#pragma once

#include <string>

namespace millrace::cluster {

/// "Open MPI 4.1.4": the MPI library that is loaded. May be called before and after MPI is up, on any thread.
[[nodiscard]] std::string mpi_version();

/// Whether MPI sends from and receives into the memory of a GPU (Open MPI's MPIX_Query_cuda_support). May be called before MPI is up.
[[nodiscard]] bool mpi_reaches_devices();

/// "Boost 1.74.0": the headers that Asio was compiled from.
[[nodiscard]] std::string boost_version();

}  // namespace millrace::cluster
