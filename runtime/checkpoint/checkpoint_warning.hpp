#pragma once

#include <cstdint>
#include <string>

namespace millrace::runtime {

/// What did not work beside a checkpoint, and fills the disk or will be missed later; the checkpoint itself is not affected.
struct CheckpointWarning {
  enum class Cause : std::uint8_t { journal, deletion };
  Cause cause = Cause::journal;
  std::string text;
};

}  // namespace millrace::runtime
