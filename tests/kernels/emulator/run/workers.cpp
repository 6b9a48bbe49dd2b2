#include "workers.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "../machine/shared.h"

namespace emulator {
namespace {

constexpr unsigned kMostWaiting = 1800;  // seconds by the clock

struct Child {
  size_t work;
  pid_t process;
  int pipe;
  std::string output;
};

Child start(size_t work, unsigned seconds, const std::function<int(size_t)>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("no process");
  if (process == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const rlimit limit{seconds, seconds + 5};  // of processor time: what else the machine does must not decide
    setrlimit(RLIMIT_CPU, &limit);
    alarm(kMostWaiting);  // should all its threads wait for one another
    _exit(body(work));
  }
  close(ends[1]);
  return {work, process, ends[0], ""};
}

// Reads on; true when the child has closed its end.
bool read_some(Child& child) {
  char text[4096];
  const ssize_t n = read(child.pipe, text, sizeof text);
  if (n > 0) child.output.append(text, size_t(n));
  return n <= 0;
}

double seconds_of(const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; }

Ended finish(const Child& child, unsigned seconds) {
  close(child.pipe);
  int status = 0;
  rusage used;
  wait4(child.process, &status, 0, &used);
  const auto ended = [&](const std::string& how) {
    return Ended{child.output, how, seconds_of(used.ru_utime) + seconds_of(used.ru_stime)};
  };
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    return ended("no end after " + std::to_string(seconds) + " s of processor time");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return ended("no end after " + std::to_string(kMostWaiting) + " s");
  if (WIFSIGNALED(status)) return ended(std::string("signal: ") + strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return ended("exit status " + std::to_string(WEXITSTATUS(status)));
  return ended("");
}

}  // namespace

void run_in_processes(size_t count, int at_once, unsigned seconds, const std::function<int(size_t)>& body,
                      const std::function<void(size_t, const Ended&)>& done) {
  prepare_shared_memory();
  std::vector<Child> children;
  size_t next = 0;
  while (next < count || !children.empty()) {
    while (next < count && children.size() < size_t(at_once)) children.push_back(start(next++, seconds, body));
    std::vector<pollfd> polled;
    for (const Child& child : children) polled.push_back({child.pipe, POLLIN, 0});
    poll(polled.data(), polled.size(), -1);
    for (size_t i = polled.size(); i-- > 0;) {
      if (polled[i].revents == 0 || !read_some(children[i])) continue;
      done(children[i].work, finish(children[i], seconds));
      children.erase(children.begin() + long(i));
    }
  }
}

}  // namespace emulator
