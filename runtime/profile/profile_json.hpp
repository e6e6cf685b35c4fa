#pragma once

#include <string>

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// The profile as one JSON object, "format": "millrace.profile.1". Times are milliseconds since the begin of the first profiled
/// step, unless the name says otherwise; steps are counted from 1. docs/profiling.md names the fields.
[[nodiscard]] std::string profile_json(const Profile& profile);

}  // namespace millrace::runtime
