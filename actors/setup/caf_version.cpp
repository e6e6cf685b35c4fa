#include "actors/setup/caf_version.hpp"

#include <fmt/format.h>

#include <caf/config.hpp>

namespace millrace::actors {

std::string caf_version() { return fmt::format("CAF {}.{}.{}", CAF_MAJOR_VERSION, CAF_MINOR_VERSION, CAF_PATCH_VERSION); }

}  // namespace millrace::actors
