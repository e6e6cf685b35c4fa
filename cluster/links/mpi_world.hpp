#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <array>

#include "cluster/links/exchange_use.hpp"
#include "cluster/links/link.hpp"

namespace millrace::cluster {

/// What the transport thread set up, for the sources that call MPI. Used only on that thread.
struct MpiWorld {
  std::array<MPI_Comm, channel_kinds> by_kind{};  ///< one communicator per kind of message
  /// By ExchangeUse: of the members of groups (cluster/exchange).
  std::array<MPI_Comm, exchange_uses> exchanges{MPI_COMM_NULL, MPI_COMM_NULL};
  MPI_Comm control = MPI_COMM_NULL;  ///< bootstrap and barriers
  int tag_limit = 0;
  bool bells = false;        ///< all processes can ring each other (cluster/links/doorbells.hpp)
  bool single_copy = false;  ///< between all processes (cluster/links/single_copy.hpp)
};

/// Throws Error(peer_lost) with MPI's own message unless `code` is MPI_SUCCESS: in a correct program a call fails only because of
/// a broken peer or network.
void check_mpi(int code, const char* call);

}  // namespace millrace::cluster
