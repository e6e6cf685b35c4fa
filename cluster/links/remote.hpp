#pragma once

#include "cluster/links/link.hpp"

namespace millrace::cluster {

/// The channels of a process whose other end is elsewhere (links/mpi.cpp).
class RemoteLinks {
 public:
  virtual ~RemoteLinks() = default;
  /// Before start().
  virtual Link& add(const ChannelEnds& ends) = 0;
  /// Posts the receives; returns when they are posted.
  virtual void start() = 0;
  /// Cancels the posted receives.
  virtual void stop() = 0;

  static std::unique_ptr<RemoteLinks> make(const Topology& topology, Transport& transport, std::size_t piece_bytes);
};

}  // namespace millrace::cluster
