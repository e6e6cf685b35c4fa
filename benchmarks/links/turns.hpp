#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cluster/links/link.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

struct Ring {
  explicit Ring(std::size_t size) : bytes((size + 63) / 64 * 64), data(static_cast<std::byte*>(std::aligned_alloc(64, bytes))) {
    std::memset(data, 1, bytes);  // touched, so that page faults are not measured
  }
  ~Ring() { std::free(data); }
  Ring(const Ring&) = delete;
  std::size_t bytes;
  std::byte* data;
};

/// Both directions between the two processes.
struct Case {
  explicit Case(std::size_t size)
      : bytes(size),
        depth(static_cast<int>(std::clamp<std::size_t>((std::size_t{16} << 20) / std::max<std::size_t>(size, 1), 2, 16))),
        down{0, 0, 1, ChannelKind::activation, depth, size},
        up{1, 1, 0, ChannelKind::activation, depth, size},
        send_ring(ring_bytes(down)),
        receive_ring(ring_bytes(down)) {}
  std::size_t bytes;
  int depth;
  ChannelSpec down, up;
  Ring send_ring, receive_ring;
  [[nodiscard]] std::int64_t stream_messages() const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>((std::size_t{64} << 20) / std::max<std::size_t>(bytes, 1)), 16, 10000);
  }
  [[nodiscard]] std::int64_t ping_pongs() const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>((std::size_t{32} << 20) / std::max<std::size_t>(bytes, 1)), 4, 2000);
  }
};

// Both processes call the same function at the same time. The result is seconds per message: half a round trip for a ping-pong,
// the whole time divided by the number of messages for a stream.

/// MPI_Send and MPI_Recv back and forth, on the transport thread.
double mpi_ping_pong(Transport& transport, Case& test);
/// A window of MPI_Isend against one of MPI_Irecv, from process 0 to 1, on the transport thread.
double mpi_stream(Transport& transport, Case& test);
/// The same over a link opened for it.
double link_turn(Transport& transport, Case& test, bool ping_pong);

}  // namespace millrace::cluster
