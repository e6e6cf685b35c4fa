#include "tests/reliability/job.hpp"

#include "tests/support/paths.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace millrace::tests {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto look_again = std::chrono::milliseconds(2);

std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

int redirect(const std::string& path) { return ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600); }

/// The value of `name` in an environment as /proc shows it; nothing if it is not set.
std::optional<std::string> value_of(const std::string& environment, const std::string& name) {
  const std::string wanted = name + "=";
  for (std::size_t begin = 0; begin < environment.size();) {
    const auto end = std::min(environment.find('\0', begin), environment.size());
    if (environment.compare(begin, wanted.size(), wanted) == 0)
      return environment.substr(begin + wanted.size(), end - begin - wanted.size());
    begin = end + 1;
  }
  return std::nullopt;
}

bool is_dead(pid_t pid) {
  const auto status = text_of("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = status.rfind(')');
  return name_end == std::string::npos || status[name_end + 2] == 'Z' || status[name_end + 2] == 'X';
}

}  // namespace

std::vector<std::string> mpirun(int processes) {
  return {MPIEXEC, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(processes)};
}

Job::Job(std::vector<std::string> launcher, const std::vector<std::string>& words, const std::vector<std::string>& environment,
         std::optional<int> given_out)
    : mark_(folder_.path().string()) {
  launcher.emplace_back(build_path("millrace"));
  launcher.insert(launcher.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (auto& word : launcher) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> settings = environment;
  settings.push_back("MILLRACE_TEST_JOB=" + mark_);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  // a shell's background jobs, and so their tests, may inherit these as ignored
  for (const int each : {SIGINT, SIGHUP, SIGPIPE}) ::signal(each, SIG_DFL);
  for (auto& setting : settings) putenv(setting.data());
  const int none = ::open("/dev/null", O_RDONLY | O_CLOEXEC), out = given_out ? *given_out : redirect(folder_ / "out"),
            err = redirect(folder_ / "err");
  dup2(none, STDIN_FILENO), dup2(out, STDOUT_FILENO), dup2(err, STDERR_FILENO);
  if (chdir(source_path().c_str()) == 0) execvp(arguments[0], arguments.data());
  _exit(127);
}

Job::~Job() {
  if (!ended()) ::kill(pid_, SIGKILL);
  for (const auto& process : processes()) ::kill(process.pid, SIGKILL);
  while (!ended()) std::this_thread::sleep_for(look_again);
  (void)all_gone(Seconds(2));
}

std::vector<Job::Process> Job::processes() const {
  std::vector<Process> found;
  std::error_code error;
  for (std::filesystem::directory_iterator place("/proc", error), end; !error && place != end; place.increment(error)) {
    const auto name = place->path().filename().string();
    pid_t pid = 0;
    const auto [last, problem] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (problem != std::errc{} || last != name.data() + name.size() || pid == pid_ || pid == getpid()) continue;
    const auto environment = text_of("/proc/" + name + "/environ");
    if (value_of(environment, "MILLRACE_TEST_JOB") != mark_ || is_dead(pid)) continue;
    found.push_back({pid, std::atoi(value_of(environment, "OMPI_COMM_WORLD_RANK").value_or("-1").c_str())});
  }
  return found;
}

std::optional<pid_t> Job::process(int number) const {
  for (const auto& process : processes())
    if (process.number == number) return process.pid;
  return std::nullopt;
}

std::string Job::out() const { return text_of(folder_ / "out"); }
std::string Job::err() const { return text_of(folder_ / "err"); }

bool Job::ended() {
  if (code_) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

bool Job::wait_for(const std::string& text, Seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (Clock::now() < deadline) {
    const bool over = ended();
    if (out().find(text) != std::string::npos) return true;
    if (over) return false;
    std::this_thread::sleep_for(look_again);
  }
  return false;
}

std::optional<JobEnd> Job::wait(Seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!ended()) {
    if (Clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(look_again);
  }
  return JobEnd{*code_, out(), err()};
}

bool Job::all_gone(Seconds limit) const {
  const auto deadline = Clock::now() + limit;
  while (!processes().empty()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(look_again);
  }
  return true;
}

}  // namespace millrace::tests
