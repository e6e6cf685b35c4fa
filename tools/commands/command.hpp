#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/load.hpp"

namespace millrace::tools {

/// A word behind `millrace`: one file in commands/ each.
struct Command {
  const char* name;
  const char* usage;                                      // "RUN.toml [key=value …]"
  const char* summary;                                    // one line
  int (*run)(const std::vector<std::string>& arguments);  // exit code; may throw Error
  const char* details = "";                               // more lines for millrace NAME --help
};

int train(const std::vector<std::string>& arguments);
int parity(const std::vector<std::string>& arguments);
int inspect(const std::vector<std::string>& arguments);
int checkpoint(const std::vector<std::string>& arguments);
int convert(const std::vector<std::string>& arguments);
int config(const std::vector<std::string>& arguments);
int data(const std::vector<std::string>& arguments);
int doctor(const std::vector<std::string>& arguments);
int schedule(const std::vector<std::string>& arguments);
int plan(const std::vector<std::string>& arguments);
int profile(const std::vector<std::string>& arguments);
int rehearse(const std::vector<std::string>& arguments);
int debug(const std::vector<std::string>& arguments);
int replay(const std::vector<std::string>& arguments);
int compare(const std::vector<std::string>& arguments);
int generate(const std::vector<std::string>& arguments);
int evaluate(const std::vector<std::string>& arguments);
/// What `millrace schedule --help` says of its words and options.
extern const char* const schedule_help;
/// The same of `millrace convert`.
extern const char* const convert_help;
/// The same of `millrace plan`.
extern const char* const plan_help;
/// The same of `millrace profile`.
extern const char* const profile_help;
/// The same of `millrace rehearse`.
extern const char* const rehearse_help;
/// The same of `millrace debug`.
extern const char* const debug_help;
/// The same of `millrace replay`.
extern const char* const replay_help;
/// The same of `millrace data`.
extern const char* const data_help;
/// The same of `millrace compare`.
extern const char* const compare_help;
/// The same of `millrace generate` and `millrace eval`.
extern const char* const generate_help;
extern const char* const evaluate_help;

/// Options of a command line: "--ranks 3", "--dtype=bf16", flags without a value; everything else is positional. Unknown options throw
/// Error(usage) with the nearest known one.
class Arguments {
 public:
  /// `options` take a value, `flags` do not; both without dashes.
  Arguments(const std::vector<std::string>& words, const std::vector<std::string>& options, const std::vector<std::string>& flags);
  [[nodiscard]] const std::vector<std::string>& positional() const noexcept { return positional_; }
  [[nodiscard]] bool flag(const std::string& name) const;
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const;
  /// Every value that was given, in order.
  [[nodiscard]] std::vector<std::string> texts(const std::string& name) const;
  /// Throws Error(usage) for what is no number, or out of [least, most].
  [[nodiscard]] long integer(const std::string& name, long otherwise, long least, long most) const;
  /// Of an option that is there: "16000000000" or "15GiB". Throws Error(usage) for anything else.
  [[nodiscard]] std::uint64_t bytes(const std::string& name) const;
  [[nodiscard]] double real(const std::string& name, double otherwise) const;

 private:
  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> positional_;
};

/// Splits positional words into files and "key=value" overrides and loads the run; the environment's MILLRACE_… are a layer between.
[[nodiscard]] configs::LoadedRun load_run(const std::vector<std::string>& words, bool complete = true);

/// A line "warning: …" on stderr for each. In a job of several processes one of them calls it.
void print_warnings(const std::vector<std::string>& warnings);
/// What the reader of model.from found, and values that have no effect.
void print_warnings(const configs::LoadedRun& run);

/// What this binary was built from: version, compiler, libraries. Equal on all processes of a job.
[[nodiscard]] std::string build_id();

}  // namespace millrace::tools
