// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what is known of destinations: names nobody may allow, suffixes
 * under which strangers register, and hosts that take anybody's data.
 *
 * Small tables on purpose: they make warnings and catch slips. What keeps a
 * sandbox in is the policy, not these.
 */
#include "netpool/base/util.h"
#include "rules/entry.h"

#include <string.h>

struct known {
	const char *name, *why;
};

/* RFC 6761, 7686, 9462: never a host on the Internet. */
static const struct known special[] = {
	{"localhost", "it is the sandbox itself (RFC 6761)"},
	{"invalid", "it exists nowhere (RFC 6761)"},
	{"onion", "it is never asked of the DNS (RFC 7686)"},
	{"resolver.arpa", "it would lead around the DNS guard (RFC 9462)"},
};

/* Two-level suffixes of registries; one-level ones need no table. */
static const char *const suffixes[] = {
	"co.uk",  "org.uk", "me.uk",  "ltd.uk",	 "plc.uk", "net.uk", "ac.uk",
	"gov.uk", "nhs.uk", "sch.uk", "com.au",	 "net.au", "org.au", "edu.au",
	"gov.au", "id.au",  "co.nz",  "net.nz",	 "org.nz", "ac.nz",  "co.jp",
	"ne.jp",  "or.jp",  "ac.jp",  "go.jp",	 "ad.jp",  "gr.jp",  "co.kr",
	"or.kr",  "ne.kr",  "go.kr",  "com.br",	 "net.br", "org.br", "gov.br",
	"com.cn", "net.cn", "org.cn", "gov.cn",	 "com.tw", "org.tw", "net.tw",
	"com.hk", "org.hk", "net.hk", "com.sg",	 "edu.sg", "gov.sg", "co.in",
	"net.in", "org.in", "gen.in", "firm.in", "gov.in", "ac.in",  "co.za",
	"org.za", "web.za", "com.mx", "org.mx",	 "gob.mx", "com.ar", "com.tr",
	"org.tr", "gov.tr", "co.il",  "org.il",	 "ac.il",  "com.ua", "org.ua",
	"com.pl", "net.pl", "org.pl", "com.my",	 "com.ph", "co.th",  "in.th",
	"com.vn", "co.id",  "or.id",  "web.id",	 "com.pk", "com.sa", "com.eg",
	"com.ng", "co.ke",  "com.co", "com.pe",	 "com.ve", "com.uy", "com.ec",
	"co.at",  "or.at",  "com.es", "com.pt",	 "com.gr", "com.ro", "co.hu",
	"com.ru", "eu.org", "us.com", "uk.com",	 "de.com", "eu.com", "gb.net",
};

/*
 * Wildcards at or below these reach whatever anybody stores or runs there;
 * exact names too where `every` is set.
 */
static const struct broad {
	const char *name, *what;
	bool every;
} broads[] = {
	{"amazonaws.com", "anybody's S3 buckets and load balancers", false},
	{"cloudfront.net", "anybody's CloudFront distribution", false},
	{"awsapps.com", "anybody's AWS applications", false},
	{"on.aws", "anybody's Lambda functions", false},
	{"googleapis.com", "anybody's Google Cloud storage", false},
	{"storage.googleapis.com", "anybody's Google Cloud storage", true},
	{"googleusercontent.com", "what Google users store", false},
	{"appspot.com", "anybody's App Engine program", false},
	{"run.app", "anybody's Cloud Run program", false},
	{"web.app", "anybody's Firebase site", false},
	{"firebaseio.com", "anybody's Firebase database", false},
	{"windows.net", "anybody's Azure storage account", false},
	{"azure.com", "anybody's Azure virtual machine", false},
	{"azurewebsites.net", "anybody's Azure site", false},
	{"azureedge.net", "anybody's Azure CDN", false},
	{"azurefd.net", "anybody's Azure front door", false},
	{"oraclecloud.com", "anybody's Oracle object storage", false},
	{"aliyuncs.com", "anybody's Alibaba object storage", false},
	{"myqcloud.com", "anybody's Tencent object storage", false},
	{"digitaloceanspaces.com", "anybody's Spaces bucket", false},
	{"ondigitalocean.app", "anybody's DigitalOcean program", false},
	{"backblazeb2.com", "anybody's Backblaze bucket", false},
	{"wasabisys.com", "anybody's Wasabi bucket", false},
	{"r2.cloudflarestorage.com", "anybody's R2 bucket", false},
	{"r2.dev", "anybody's R2 bucket", false},
	{"workers.dev", "anybody's Cloudflare Worker", false},
	{"pages.dev", "anybody's Cloudflare page", false},
	{"trycloudflare.com", "anybody's tunnel", true},
	{"cloudflare.net", "whoever is behind Cloudflare", false},
	{"fastly.net", "whoever is behind Fastly", false},
	{"fastlylb.net", "whoever is behind Fastly", false},
	{"akamaized.net", "whoever is behind Akamai", false},
	{"akamaihd.net", "whoever is behind Akamai", false},
	{"edgekey.net", "whoever is behind Akamai", false},
	{"edgesuite.net", "whoever is behind Akamai", false},
	{"github.com", "anybody's repositories", false},
	{"gist.github.com", "anybody's gists", true},
	{"githubusercontent.com", "what GitHub users store", false},
	{"raw.githubusercontent.com", "what GitHub users store", true},
	{"gist.githubusercontent.com", "anybody's gists", true},
	{"github.io", "anybody's GitHub pages", false},
	{"github.dev", "anybody's code space", false},
	{"gitlab.com", "anybody's repositories", false},
	{"gitlab.io", "anybody's GitLab pages", false},
	{"bitbucket.org", "anybody's repositories", false},
	{"bitbucket.io", "anybody's Bitbucket pages", false},
	{"herokuapp.com", "anybody's Heroku program", false},
	{"vercel.app", "anybody's Vercel program", false},
	{"netlify.app", "anybody's Netlify site", false},
	{"onrender.com", "anybody's Render program", false},
	{"fly.dev", "anybody's Fly program", false},
	{"repl.co", "anybody's Replit program", false},
	{"ngrok.io", "anybody's tunnel", true},
	{"ngrok.app", "anybody's tunnel", true},
	{"ngrok-free.app", "anybody's tunnel", true},
	{"pastebin.com", "anybody's pastes", true},
	{"transfer.sh", "anybody's files", true},
	{"webhook.site", "anybody's collector", true},
	{"requestbin.com", "anybody's collector", true},
	{"pipedream.net", "anybody's collector", true},
	{"oast.fun", "a collector made for exfiltration tests", true},
	{"interact.sh", "a collector made for exfiltration tests", true},
	{"burpcollaborator.net", "a collector made for such tests", true},
	{"hooks.slack.com", "anybody's Slack channel", true},
	{"discord.com", "anybody's Discord channel", true},
	{"api.telegram.org", "anybody's Telegram bot", true},
};

static bool at_or_below(const struct eg_name *n, const char *text)
{
	struct eg_name top;

	return !eg_name_parse(text, &top, NULL) && eg_name_below(n, &top) >= 0;
}

const char *rl_dest_special(const struct eg_name *n)
{
	for (size_t i = 0; i < EG_ARRAY_SIZE(special); i++)
		if (at_or_below(n, special[i].name))
			return special[i].why;
	return NULL;
}

bool rl_dest_public_suffix(const struct eg_name *n)
{
	struct eg_name s;

	for (size_t i = 0; i < EG_ARRAY_SIZE(suffixes); i++)
		if (!eg_name_parse(suffixes[i], &s, NULL) && eg_name_equal(n, &s))
			return true;
	return false;
}

const char *rl_dest_broad(const struct rl_entry *e)
{
	bool wild = e->kind == RL_ONE || e->kind == RL_MANY;
	const char *what = NULL;

	/* The last that fits is the most particular of its family. */
	for (size_t i = 0; i < EG_ARRAY_SIZE(broads); i++)
		if ((wild || broads[i].every) &&
		    at_or_below(&e->name, broads[i].name))
			what = broads[i].what;
	return what;
}
