#pragma once

#include <string>
#include <string_view>

namespace millrace::runtime {

/// One self-contained HTML page with the curves of a run, drawn as SVG from the text of its metrics.jsonl: the loss with its terms and the
/// held-out loss, the gradient norm, the learning rate, the tokens of a step, steps that were skipped, how evenly routers use their
/// experts, and the largest attention score, each if the file has it. Lines that are not ours are skipped; a value that is not finite
/// leaves a gap. `title` is shown as text. Without any step the page says so. Any thread.
[[nodiscard]] std::string run_page(std::string_view title, std::string_view metrics);

}  // namespace millrace::runtime
