#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/control_link.hpp"

namespace millrace::cluster {

/// A loss as process 0 passes it on, and back. A text that is no loss gives process −1.
std::vector<std::byte> loss_bytes(const Loss& loss);
Loss loss_from_bytes(std::span<const std::byte> bytes);

}  // namespace millrace::cluster
