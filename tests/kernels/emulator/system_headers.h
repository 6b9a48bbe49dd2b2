// What most of the emulator's own files include, compiled once (build.py); each of them still names what it uses.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>
