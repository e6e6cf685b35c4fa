#include "cluster/host/versions.hpp"

#include <fmt/format.h>
#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <array>
#include <boost/version.hpp>

namespace millrace::cluster {

std::string mpi_version() {
  // "Open MPI v4.1.4, package: Debian OpenMPI, ident: …"; one of the few calls that MPI allows before MPI_Init.
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown MPI";
  std::string version(text.data(), static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  if (const auto letter = version.find(" v"); letter != std::string::npos) version.erase(letter + 1, 1);
  return version;
}

bool mpi_reaches_devices() {
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>) && defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

std::string boost_version() {
  return fmt::format("Boost {}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100);
}

}  // namespace millrace::cluster
