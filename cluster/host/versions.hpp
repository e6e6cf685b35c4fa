#pragma once

#include <string>

namespace millrace::cluster {

/// "Open MPI 4.1.4": the loaded MPI library. May be called before and after MPI is initialised, on any thread.
[[nodiscard]] std::string mpi_version();

/// Whether MPI can send from and receive into GPU memory (Open MPI's MPIX_Query_cuda_support). May be called before MPI is
/// initialised.
[[nodiscard]] bool mpi_reaches_devices();

/// "Boost 1.74.0": the headers that Asio was compiled from.
[[nodiscard]] std::string boost_version();

}  // namespace millrace::cluster
