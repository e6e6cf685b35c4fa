#pragma once

#include <cstdint>
#include <string>

namespace millrace::runtime {

/// A failure beside a checkpoint, such as a full disk during the deletion of old ones; the checkpoint itself is not affected.
struct CheckpointWarning {
  enum class Cause : std::uint8_t { journal, deletion };
  Cause cause = Cause::journal;
  std::string text;
};

}  // namespace millrace::runtime
