// What blocks hand to one another by tagged words: the project's own readers with more tiles than small inputs have, and a
// reader that trusts one tag of two.
#include <cmath>
#include <random>

#include "../../../../csrc/cuda/reduce/ordered/split.cuh"
#include "fault.h"

namespace {
using namespace emulator::faults;
namespace cuda = torch_reductions::cuda;
using torch_reductions::Dtype;
using Op = torch_reductions::Sum<float>;

// The first blocks publish given totals and digits, the last ones read them.
__global__ void read_given(cuda::reduce::Split split, cuda::reduce::Output out, const float* totals,
                           const float* digits) {
  const unsigned workers = split.lines * split.tiles;
  if (blockIdx.x >= workers) return cuda::reduce::read_lines<Op>(split, out, blockIdx.x - workers);
  const unsigned line = blockIdx.x / split.tiles, tile = blockIdx.x - line * split.tiles;
  const unsigned whole = unsigned(split.length >> split.log_tile);
  if (threadIdx.x > 0) return;
  const unsigned tag = cuda::launch_tag(cuda::launch_number(split.tile_state));
  if (tile < whole) cuda::reduce::publish_total(split, line, tile, totals[line * whole + tile], tag);
  else
    for (int k = 0; k < split.log_tile; k++)
      if (split.length >> k & 1) cuda::reduce::publish_digit(split, line, k, digits[k], tag);
}

float tree(const float* x, int64_t n) { return n == 1 ? x[0] : tree(x, n / 2) + tree(x + n / 2, n / 2); }

float fold(const float* totals, int64_t whole, const float* digits, int64_t rest, int log_tile) {
  float v = -0.0f;
  for (int k = 40; k-- > 0;)
    if (whole >> k & 1) {
      v += tree(totals, int64_t(1) << k);
      totals += int64_t(1) << k;
    }
  for (int k = log_tile; k-- > 0;)
    if (rest >> k & 1) v += digits[k];
  return v;
}

std::string read(int64_t whole, int64_t rest, unsigned threads) {
  constexpr unsigned lines = 2;
  constexpr int log_tile = 3;
  cuda::reduce::Split split{(whole << log_tile) + rest, log_tile, lines, unsigned(whole + (rest != 0)), {}};
  Buffer<uint64_t> tile_state(2), words(lines * split.words_of_line());
  split.tile_state = {tile_state, words};
  Buffer<float> totals(lines * whole), digits(log_tile), out(lines, -1);
  std::mt19937 random(1);
  for (float& x : totals) x = float(int(random() % 2000001) - 1000000) * std::exp2f(float(random() % 16));
  for (float& x : digits) x = float(random() % 1000) / 7;
  for (int run = 0; run < 2; run++) {
    launch(read_given, lines * split.tiles + split.readers(threads), threads, split,
           cuda::reduce::Output{out, Dtype::float32, false, 0}, totals, digits);
    for (unsigned line = 0; line < lines; line++)
      if (out[line] != fold(totals + line * whole, whole, digits, rest, log_tile))
        return "wrong result of " + std::to_string(whole) + " tiles and " + std::to_string(rest);
  }
  return "";
}
std::string read_all(unsigned threads) {
  for (const int64_t whole : {257, 300, 512, 775})
    for (const int64_t rest : {0, 5})
      if (const std::string wrong = read(whole, rest, threads); !wrong.empty()) return wrong;
  return "";
}
FAULT(readers_of_one_warp, kNowhere, "") { return read_all(32); }
FAULT(readers_of_three_warps, kNowhere, "") { return read_all(96); }
FAULT(readers_of_eight_warps, kNowhere, "") { return read(2600, 3, 256); }

// A value of two words, each with its tag: one tag is not enough.
template <bool sound>
__global__ void two_words(uint64_t* words, double* out) {
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0) return cuda::publish(words, 1.0 / 3, 7);
  double value[1];
  if (sound) {
    while (!cuda::arrived(value, [&](int) { return words; }, cuda::Awaited{7, ~0u})) {
    }
  } else {
    while (cuda::load_relaxed(words) >> 32 != 7) {
    }
    cuda::arrived(value, [&](int) { return words; }, cuda::Awaited{7, 0});
  }
  *out = value[0];
}
FAULT(one_tag_of_two, kPlain, "wrong result") {
  Buffer<uint64_t> words(2);
  Buffer<double> out(1);
  launch(two_words<sound>, 2, 32, words, out);
  return expect(out[0] == 1.0 / 3);
}

}  // namespace
