#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The names of the folders in `<run>/checkpoints/`: step-00000040, step-00000040.tmp-<epoch> while it is being written, and
/// step-00000040.bad after it was found damaged (.bad-2 if there is one already).
namespace millrace::runtime {

/// The step of a name such as "step-00000040"; nothing for other names.
[[nodiscard]] std::optional<std::uint64_t> step_of(std::string_view name);
/// The step of a name such as "step-00000040.bad-2"; nothing for other names.
[[nodiscard]] std::optional<std::uint64_t> step_put_aside(std::string_view name);
/// The steps that have a checkpoint in a folder, ascending; none if there is no such folder.
[[nodiscard]] std::vector<std::uint64_t> checkpoint_steps(const std::string& folder);
/// The last part of a path.
[[nodiscard]] std::string file_name_of(std::string_view path);

}  // namespace millrace::runtime
