// Writes the pages that the browser test opens: make_pages FOLDER writes one for each synthetic run below; make_pages FOLDER
// PROFILE.json … writes one for each given profile.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/base/check.hpp"
#include "runtime/profile/report/report_page.hpp"
#include "runtime/profile/report/run_page.hpp"
#include "tests/browser/synthetic_profile.hpp"

namespace {

using namespace millrace;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  MILLRACE_CHECK(stream.good(), ExitCode::storage, "make_pages", "{} could not be written, expected a folder with room", path.string());
}

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  MILLRACE_CHECK(stream.good(), ExitCode::data, "make_pages", "{} cannot be read, expected a profile.json", path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Metrics of a run of 60 steps, with terms of the loss, evaluations and skipped steps.
std::string synthetic_metrics() {
  std::string text = "{\"schema\":1,\"kind\":\"millrace.metrics\"}\n";
  for (int step = 1; step <= 60; ++step) {
    const double loss = 1.5 + 4.0 / step;
    text += fmt::format(
        "{{\"step\":{0},\"loss\":{1},\"loss_hex\":\"0x1p+1\",\"lm_loss\":{2},\"lm_loss_hex\":\"0x1p+1\",\"gradient_norm\":{3},\"learning_"
        "rate\":{4},"
        "\"tokens\":4096,\"step_skipped\":{5},\"expert_evenness\":[0.9,0.95],\"hottest_share\":[0.2,0.3]}}\n",
        step, loss, loss - 0.1, 2.0 / step, 1e-3 / step, step % 20 == 0 ? 1 : 0);
    if (step % 20 == 0) text += fmt::format("{{\"step\":{},\"evaluation_loss\":{}}}\n", step, loss + 0.2);
  }
  return text;
}

void make(int count, char** words) {
  MILLRACE_CHECK(count >= 2, ExitCode::usage, "make_pages", "no folder, expected make_pages FOLDER [PROFILE.json …]");
  const std::filesystem::path folder = words[1];
  std::filesystem::create_directories(folder);
  for (int index = 2; index < count; ++index)
    write(folder / (std::filesystem::path(words[index]).stem().string() + ".html"), runtime::report_page(read(words[index])));
  if (count > 2) return;
  const std::pair<const char*, tests::SyntheticRun> runs[] = {
      {"ranks4", {}},
      {"split4", {.schedule = "zb-h1", .processes = 4, .steps = 1, .experts = true}},
      {"dualpipe8", {.schedule = "dualpipe", .ranks = 8, .microbatches = 20, .rehearsal = true}},
      {"ranks64", {.ranks = 64, .microbatches = 128, .processes = 16, .steps = 3}},
  };
  for (const auto& [name, run] : runs)
    write(folder / (std::string(name) + ".html"), runtime::report_page(tests::synthetic_profile(run).dump()));
  write(folder / "run.html", runtime::run_page("runs/a-rather-long-name-of-a-folder", synthetic_metrics()));
}

}  // namespace

int main(int count, char** words) {
  try {
    make(count, words);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
