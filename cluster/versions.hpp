#pragma once

#include <string>

namespace millrace::cluster {

/// "Open MPI 4.1.4": the MPI library that is loaded. May be called before and after MPI is up, on any thread.
[[nodiscard]] std::string mpi_version();

/// "Boost 1.74.0": the headers that Asio was compiled from.
[[nodiscard]] std::string boost_version();

}  // namespace millrace::cluster
