//! A judge of answers to bid requests. It knows the specification, the request, the answer and the file of campaigns, all as
//! JSON, and nothing of the node: neither its reader nor its auction nor the check before sending.
//!
//! It is strict where breaking a rule costs an exchange something, and says nothing of what may be read in two ways.

use serde_json::Value;

/// What a node was started with.
pub(crate) struct Judge<'a> {
    /// The campaigns of its file.
    pub(crate) campaigns: &'a [Value],
    /// The currency of a request that names none.
    pub(crate) currency: &'a str,
    /// What one unit of other currencies is worth in that.
    pub(crate) rates: &'a [(&'a str, f64)],
}

/// A bid with what it is for.
struct Case<'a> {
    request: &'a Value,
    imp: &'a Value,
    bid: &'a Value,
    seat: &'a str,
    currency: &'a str,
    campaign: &'a Value,
    creative: &'a Value,
    deal: Option<&'a Value>,
}

/// Prices have six decimals; a floor may have been rounded on the way from one currency to another.
const ROUNDING: f64 = 2.1e-6;

impl Judge<'_> {
    /// Everything that is wrong with an answer; empty where nothing is.
    pub(crate) fn faults(&self, request: &Value, answer: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |holds: bool, what: &str| {
            if !holds {
                faults.push(what.to_string());
            }
        };
        fault(text(&answer["id"]) == text(&request["id"]), "id");
        let currency = answer["cur"].as_str().unwrap_or("USD");
        let taken = list(&request["cur"]);
        let is_taken = match taken.is_empty() {
            true => currency == self.currency,
            false => taken.iter().any(|one| text(one).eq_ignore_ascii_case(currency)),
        };
        fault(is_taken, "cur");
        let (mut ids, mut imps): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for seat in list(&answer["seatbid"]) {
            fault(!list(&seat["bid"]).is_empty(), "an empty seat");
            for bid in list(&seat["bid"]) {
                fault(!ids.contains(&text(&bid["id"])), "two bids of one id");
                let is_again = imps.contains(&text(&bid["impid"]));
                fault(!is_again || is_pod(request, bid), "two bids for one impression");
                ids.push(text(&bid["id"]));
                imps.push(text(&bid["impid"]));
                let seat = seat["seat"].as_str().unwrap_or("");
                match self.case(request, bid, seat, currency) {
                    Ok(case) => {
                        case.rules(self).into_iter().for_each(|(holds, what)| fault(holds, what))
                    }
                    Err(what) => fault(false, what),
                }
            }
        }
        fault(!ids.is_empty(), "no bid in an answer of 200");
        imps.sort_unstable();
        imps.dedup();
        for id in &imps {
            self.pod(request, answer, id).into_iter().for_each(|(holds, what)| fault(holds, what));
        }
        faults
    }

    fn case<'a>(
        &'a self,
        request: &'a Value,
        bid: &'a Value,
        seat: &'a str,
        currency: &'a str,
    ) -> Result<Case<'a>, &'static str> {
        let imps = list(&request["imp"]);
        let mut of_id = imps.into_iter().filter(|imp| text(&imp["id"]) == text(&bid["impid"]));
        let imp = of_id.next().ok_or("no such impression")?;
        if of_id.next().is_some() {
            return Err("two impressions of this id");
        }
        let campaign = self.campaigns.iter().find(|one| text(&one["id"]) == text(&bid["cid"]));
        let campaign = campaign.ok_or("no such campaign")?;
        let mut creatives = list(&campaign["creatives"]).into_iter();
        let creative = creatives.find(|one| one["id"] == bid["crid"]).ok_or("no such creative")?;
        let deal = match bid.get("dealid") {
            None => None,
            Some(id) => {
                let deals = list(&imp["pmp"]["deals"]).into_iter();
                // Of two deals of one id either may be meant.
                let mut of_id = deals.filter(|deal| text(&deal["id"]) == text(id));
                Some(of_id.next().ok_or("no such deal")?)
            }
        };
        Ok(Case { request, imp, bid, seat, currency, campaign, creative, deal })
    }

    /// Several ads of one dynamic pod (OpenRTB 2.6, 7.6): in its time, in its number, of different buyers.
    fn pod(&self, request: &Value, answer: &Value, id: &str) -> Vec<(bool, &'static str)> {
        let seats = list(&answer["seatbid"]).into_iter();
        let bids = seats.flat_map(|seat| list(&seat["bid"]));
        let bids: Vec<&Value> = bids.filter(|bid| text(&bid["impid"]) == id).collect();
        let first = bids.first().filter(|bid| is_pod(request, bid));
        let Some(medium) = first.and_then(|bid| medium_of(request, bid)) else { return Vec::new() };
        let seconds: f64 = bids.iter().filter_map(|bid| number(&bid["dur"])).sum();
        let most = number(&medium["maxseq"]).filter(|most| *most > 0.0).unwrap_or(f64::MAX);
        let ads = bids.iter().fold(0.0, |ads, _| ads + 1.0);
        let brand = |bid: &Value| {
            let of = self.campaigns.iter().find(|one| text(&one["id"]) == text(&bid["cid"]));
            let first =
                || text(&list(&bid["adomain"]).first().copied().cloned().unwrap_or_default());
            of.and_then(|of| of["advertiser"].as_str().map(str::to_string)).unwrap_or_else(first)
        };
        let is_alone = |one: &&&Value| {
            let same = |other: &&&Value| {
                text(&one["cid"]) == text(&other["cid"]) || brand(one) == brand(other)
            };
            bids.iter().filter(same).count() == 1
        };
        vec![
            (bids.iter().all(|bid| bid["mtype"] == bids[0]["mtype"]), "two formats in a pod"),
            (seconds <= number(&medium["poddur"]).unwrap_or(0.0), "poddur"),
            (ads <= most, "maxseq"),
            (bids.iter().filter(is_alone).count() == bids.len(), "one buyer twice in a pod"),
        ]
    }

    /// What one unit of a currency is worth.
    fn rate(&self, currency: &str) -> Option<f64> {
        if currency.eq_ignore_ascii_case(self.currency) {
            return Some(1.0);
        }
        let named = |(name, _): &&(&str, f64)| currency.eq_ignore_ascii_case(name);
        self.rates.iter().find(named).map(|(_, rate)| *rate)
    }
}

impl Case<'_> {
    fn rules(&self, judge: &Judge<'_>) -> Vec<(bool, &'static str)> {
        let mut rules = self.offer(judge);
        rules.extend(self.seats());
        rules.extend(self.blocks());
        rules.extend(self.placement());
        rules.extend(self.notices());
        rules
    }

    fn medium(&self) -> &Value {
        &self.imp[self.creative["format"].as_str().unwrap_or("")]
    }

    /// Price and floors.
    fn offer(&self, judge: &Judge<'_>) -> Vec<(bool, &'static str)> {
        let price = number(&self.bid["price"]).unwrap_or(0.0);
        let worth = judge.rate(self.currency).map(|rate| price * rate);
        let own = self.campaign["unit"].as_str().unwrap_or("USD");
        let bid = number(&self.campaign["bid"]).zip(judge.rate(own)).map(|(bid, rate)| bid * rate);
        let within = worth.zip(bid).is_some_and(|(worth, bid)| worth <= bid + ROUNDING);
        let from = self.deal.unwrap_or(self.imp);
        let said = from["bidfloorcur"].as_str().filter(|code| !code.is_empty());
        let floor_currency = said.unwrap_or("USD");
        let floor = self.floor(from);
        let met = floor <= 0.0
            || judge
                .rate(floor_currency)
                .zip(worth)
                .is_some_and(|(rate, worth)| worth >= floor * rate - ROUNDING);
        vec![
            (price > 0.0, "price"),
            (within, "above the campaign's bid"),
            (met, "floor"),
            (
                self.deal.is_some() || number(&self.imp["pmp"]["private_auction"]) != Some(1.0),
                "private auction",
            ),
        ]
    }

    /// The floor of an impression or deal: by the ad's duration where there is one of those, else the plain one.
    fn floor(&self, from: &Value) -> f64 {
        let plain = number(&from["bidfloor"]).unwrap_or(0.0);
        let timed = match self.deal {
            Some(deal) => deal,
            None => self.medium(),
        };
        let Some(seconds) = number(&self.creative["duration_s"]) else { return plain };
        let range = list(&timed["durfloors"]).into_iter().find(|range| {
            let (least, most) = (number(&range["mindur"]), number(&range["maxdur"]));
            seconds >= least.unwrap_or(0.0)
                && seconds <= most.filter(|most| *most > 0.0).unwrap_or(f64::MAX)
        });
        let by_range = range.and_then(|range| number(&range["bidfloor"]));
        let by_second = number(&timed["mincpmpersec"]).map(|each| each * seconds);
        // 0 is how exchanges say that there is none.
        let [by_range, by_second] =
            [by_range, by_second].map(|floor| floor.filter(|one| *one > 0.0));
        match (by_range, by_second) {
            (None, None) => plain,
            (one, other) => one.unwrap_or(0.0).max(other.unwrap_or(0.0)),
        }
    }

    fn seats(&self) -> Vec<(bool, &'static str)> {
        let may = |allowed: &Value| {
            let allowed = list(allowed);
            allowed.is_empty() || allowed.iter().any(|one| text(one) == self.seat)
        };
        let blocked = list(&self.request["bseat"]).iter().any(|one| text(one) == self.seat);
        let deal_seats = self.deal.is_none_or(|deal| may(&deal["wseat"]));
        let advertisers = self.deal.map(|deal| list(&deal["wadomain"])).unwrap_or_default();
        let advertiser = advertisers.is_empty()
            || self
                .advertisers()
                .iter()
                .all(|one| advertisers.iter().any(|of| is_below(one, &text(of))));
        vec![
            (self.seat == self.campaign["seat"].as_str().unwrap_or(""), "another's seat"),
            (may(&self.request["wseat"]) && !blocked, "seat"),
            (deal_seats, "seat of the deal"),
            (advertiser, "advertiser of the deal"),
        ]
    }

    fn advertisers(&self) -> Vec<String> {
        list(&self.creative["adomain"]).into_iter().map(text).collect()
    }

    /// Its owner's, and "skippable" where its VAST says so (OpenRTB 2.6, 3.2.7, `skip`).
    fn attributes(&self) -> Vec<f64> {
        let mut all: Vec<f64> =
            list(&self.creative["attr"]).into_iter().filter_map(number).collect();
        if self.creative["markup"].as_str().is_some_and(|markup| markup.contains("skipoffset=")) {
            all.push(16.0);
        }
        all
    }

    /// What the publisher rules out.
    fn blocks(&self) -> Vec<(bool, &'static str)> {
        let top = self.request;
        let said = list(&self.bid["adomain"]).into_iter().map(text).collect::<Vec<_>>();
        let advertisers = self.advertisers();
        let blocked = list(&top["badv"]).into_iter().map(text).filter(|one| !one.trim().is_empty());
        let no_advertiser =
            blocked.into_iter().all(|of| !advertisers.iter().any(|one| is_below(one, &of)));
        let categories = list(&self.creative["cat"]);
        let (no, only) = (list(&top["bcat"]), list(&top["acat"]));
        let is_second = is_content_2(&top["cattax"]);
        let is_of = |one: &Value, of: &Value| {
            let (one, of) = (text(one), text(of));
            match is_second {
                true => content_2(&one).contains(&of.as_str()),
                false => one == of || one.starts_with(&format!("{of}-")),
            }
        };
        let in_list = |one: &Value, all: &[&Value]| all.iter().any(|of| is_of(one, of));
        let comparable = number(&top["cattax"]).is_none_or(|of| of == 1.0)
            || is_second
            || (no.is_empty() && only.is_empty())
            || categories.is_empty();
        let no_category = !comparable || categories.iter().all(|one| !in_list(one, &no));
        let allowed = !comparable
            || only.is_empty()
            || (!categories.is_empty() && categories.iter().all(|one| in_list(one, &only)));
        let attributes =
            list(&self.medium()["battr"]).into_iter().filter_map(number).collect::<Vec<_>>();
        let no_attribute = self.attributes().iter().all(|one| !attributes.contains(one));
        let apps = list(&top["bapp"]);
        let language = text(&self.creative["language"]);
        let speaks = |list_of: &Value| {
            let primary = |tag: &str| tag.split(['-', '_']).next().unwrap_or("").to_lowercase();
            let all = list(list_of);
            language.is_empty()
                || all.is_empty()
                || all.iter().any(|one| primary(&text(one)) == primary(&language))
        };
        let site_lists = self.campaign["targeting"]["domains"]["none"].as_array();
        let host = host_of(&self.request["site"]);
        // Of an app and a site in one request nobody can say which is meant.
        let is_clear = top["app"].is_null() && top["dooh"].is_null();
        let no_site = !is_clear
            || site_lists.is_none_or(|all| all.iter().all(|of| !is_below(&host, &text(of))));
        vec![
            (said == advertisers, "adomain is not the creative's"),
            (no_advertiser, "badv"),
            (comparable, "categories of another taxonomy"),
            (no_category, "bcat"),
            (allowed, "acat"),
            (no_attribute, "battr"),
            (!apps.iter().any(|one| *one == &self.creative["bundle"]), "bapp"),
            (speaks(&top["wlang"]) && speaks(&top["wlangb"]), "wlang"),
            (no_site, "a site that the campaign does not want"),
            (!is_clear || self.wants_page(), "a page that the campaign does not want"),
        ]
    }

    /// Is a site's page about none of what the campaign rules out, and is it known to be?
    fn wants_page(&self) -> bool {
        let ruled_out = list(&self.campaign["targeting"]["categories"]["none"]);
        let site = &self.request["site"];
        let about = |one: &Value, of: &Value, taxonomy: &Value| {
            let (one, of) = (text(one), text(of));
            match number(taxonomy).unwrap_or(1.0) {
                1.0 => one == of || one.starts_with(&format!("{of}-")),
                _ if is_content_2(taxonomy) => content_2(&of).first() == Some(&one.as_str()),
                // Nobody knows.
                _ => true,
            }
        };
        let parts = [
            (&site["cat"], &site["cattax"]),
            (&site["sectioncat"], &site["cattax"]),
            (&site["pagecat"], &site["cattax"]),
            (&site["content"]["cat"], &site["content"]["cattax"]),
        ];
        parts.iter().all(|(names, taxonomy)| {
            list(names).iter().all(|one| !ruled_out.iter().any(|of| about(one, of, taxonomy)))
        })
    }

    /// Kind, size, duration, player.
    fn placement(&self) -> Vec<(bool, &'static str)> {
        let medium = self.medium();
        let formats = ["banner", "video", "audio", "native"];
        let mtype = formats.iter().position(|one| *one == self.creative["format"]);
        let mut rules = vec![
            (medium.is_object(), "the impression has no place of this format"),
            (self.bid["mtype"].as_u64() == mtype.map(|at| at as u64 + 1), "mtype"),
            (self.bid["exp"].as_f64() <= number(&self.imp["exp"]).or(Some(f64::MAX)), "exp"),
        ];
        match mtype {
            Some(0) => rules.push((self.size_fits(medium), "size")),
            Some(1 | 2) => rules.extend(self.plays(medium)),
            _ => rules.push((self.native_fits(medium), "native")),
        }
        rules
    }

    fn size_fits(&self, banner: &Value) -> bool {
        let of = |value: &Value| number(value).filter(|size| *size > 0.0);
        let (width, height) = (of(&self.bid["w"]), of(&self.bid["h"]));
        let formats = list(&banner["format"]);
        let has_range = ["wmin", "wmax", "hmin", "hmax"].iter().any(|name| !banner[name].is_null());
        let says =
            !formats.is_empty() || has_range || !(banner["w"].is_null() || banner["h"].is_null());
        let Some((width, height)) = width.zip(height) else { return !says };
        let own = list(&self.creative["sizes"]);
        let is_own =
            own.iter().any(|one| **one == "any" || text(one) == format!("{width}x{height}"));
        let full_screen = number(&self.imp["instl"]) == Some(1.0);
        let takes = |w: &Value, h: &Value| match of(w).zip(of(h)) {
            Some((w, h)) if full_screen => width <= w && height <= h,
            Some((w, h)) => (width, height) == (w, h),
            None => false,
        };
        let ratio = |format: &&Value| {
            let sides = of(&format["wratio"]).zip(of(&format["hratio"]));
            let least = number(&format["wmin"]).unwrap_or(1.0);
            sides.is_some_and(|(w, h)| width >= least && (width * h - height * w).abs() < 0.5)
        };
        let named = formats.iter().any(|format| takes(&format["w"], &format["h"]) || ratio(format));
        is_own && (!says || has_range || named || takes(&banner["w"], &banner["h"]))
    }

    fn plays(&self, stream: &Value) -> Vec<(bool, &'static str)> {
        let seconds = number(&self.creative["duration_s"]);
        let only: Vec<f64> = list(&stream["rqddurs"]).into_iter().filter_map(number).collect();
        let least = number(&stream["minduration"]).unwrap_or(0.0);
        let most = number(&stream["maxduration"]).filter(|most| *most > 0.0).unwrap_or(f64::MAX);
        let fits = match seconds {
            Some(seconds) if only.is_empty() => least <= seconds && seconds <= most,
            Some(seconds) => only.contains(&seconds),
            None => only.is_empty(),
        };
        // One ad of a dynamic pod is not longer than the pod.
        let whole = number(&stream["poddur"]).filter(|whole| *whole > 0.0).unwrap_or(f64::MAX);
        let numbers =
            |value: &Value| list(value).into_iter().filter_map(number).collect::<Vec<_>>();
        let mut protocols = numbers(&stream["protocols"]);
        protocols.extend(numbers(&stream["protocol"]));
        let protocol = number(&self.bid["protocol"]);
        let plays = protocol.is_none_or(|one| protocols.is_empty() || protocols.contains(&one));
        let mimes: Vec<String> =
            list(&stream["mimes"]).into_iter().map(|one| text(one).to_lowercase()).collect();
        let markup = self.creative["markup"].as_str().unwrap_or("");
        let files: Vec<&str> = markup
            .split("<MediaFile type=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let has_file = files.is_empty()
            || mimes.is_empty()
            || files.iter().any(|file| mimes.contains(&file.to_lowercase()));
        let linear = markup.contains("<Linear") && number(&stream["linearity"]) == Some(2.0);
        vec![
            (fits, "duration"),
            (seconds.is_none_or(|seconds| seconds <= whole), "poddur"),
            (number(&self.bid["dur"]) == seconds, "dur is not the creative's"),
            (plays, "protocol"),
            (has_file, "mimes"),
            (!linear, "linearity"),
            (self.said_attributes() == self.attributes(), "attr is not the creative's"),
            (self.wants_player(stream), "a player that the campaign does not want"),
        ]
    }

    fn said_attributes(&self) -> Vec<f64> {
        list(&self.bid["attr"]).into_iter().filter_map(number).collect()
    }

    /// What the campaign's file says of players, which are asked of for videos only.
    fn wants_player(&self, player: &Value) -> bool {
        let wanted = &self.campaign["targeting"]["video"];
        if self.creative["format"] != "video" {
            return true;
        }
        let agrees = |field: &str| {
            let said: Vec<String> =
                list(&player[field]).into_iter().map(|one| property(field, one)).collect();
            let has = |of: &Value| list(of).iter().any(|one| said.contains(&property(field, one)));
            let (any, none) = (&wanted[field]["any"], &wanted[field]["none"]);
            (list(any).is_empty() || has(any)) && !has(none)
        };
        let skip = wanted["skip"].as_bool().map(|skip| f64::from(u8::from(skip)));
        ["plcmt", "placement", "startdelay", "playbackmethod"].into_iter().all(agrees)
            && (skip.is_none() || skip == number(&player["skip"]))
    }

    /// Each required asset is there, with its id and of its kind, and none that was not asked for.
    fn native_fits(&self, native: &Value) -> bool {
        let parse = |value: &Value| {
            value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok())
        };
        let unwrap = |value: Value| value.get("native").cloned().unwrap_or(value);
        let asked = match &native["request"] {
            object @ Value::Object(_) => Some(object.clone()),
            text => parse(text),
        };
        let Some((asked, made)) = asked.zip(parse(&self.bid["adm"])) else { return false };
        let (asked, made) = (unwrap(asked), unwrap(made));
        let kinds = ["title", "img", "data", "video"];
        let same = |one: &Value, other: &Value| {
            number(&one["id"]) == number(&other["id"])
                && kinds.iter().all(|kind| one[kind].is_object() <= other[kind].is_object())
        };
        let (asked, made) = (list(&asked["assets"]), list(&made["assets"]));
        let has_all = asked
            .iter()
            .filter(|asset| number(&asset["required"]) == Some(1.0))
            .all(|asset| made.iter().any(|one| same(one, asset)));
        !asked.is_empty()
            && has_all
            && made.iter().all(|one| asked.iter().any(|asset| same(one, asset)))
    }

    /// The addresses of notices, and what is not secure.
    fn notices(&self) -> Vec<(bool, &'static str)> {
        let secure = number(&self.imp["secure"]).is_some_and(|flag| flag != 0.0);
        let markup = self.bid["adm"].as_str().unwrap_or("");
        let of_creative = self.creative["secure"].as_bool().unwrap_or(true);
        let once = |field: &str, word: &str| (self.bid[field].is_string()) != markup.contains(word);
        let slot = |value: &Value| number(value).unwrap_or(0.0);
        let asked = slot(&self.medium()["slotinpod"]);
        vec![
            (!markup.is_empty(), "no markup"),
            (!markup.contains("${WEIR_"), "a macro of ours is left"),
            (!secure || (of_creative && !markup.contains("http://")), "secure"),
            (once("burl", "/n/bill/") && once("nurl", "/n/win/"), "a notice twice or never"),
            (self.bid["slotinpod"].is_null() || slot(&self.bid["slotinpod"]) == asked, "slotinpod"),
        ]
    }
}

/// What an impression says of the format of a bid.
fn medium_of<'a>(request: &'a Value, bid: &Value) -> Option<&'a Value> {
    let name = match bid["mtype"].as_u64()? {
        2 => "video",
        3 => "audio",
        _ => return None,
    };
    let mut imps = list(&request["imp"]).into_iter();
    imps.find(|imp| text(&imp["id"]) == text(&bid["impid"])).map(|imp| &imp[name])
}

/// Is a bid for a dynamic pod, which several ads fill?
fn is_pod(request: &Value, bid: &Value) -> bool {
    medium_of(request, bid).is_some_and(|medium| number(&medium["poddur"]) > Some(0.0))
}

/// The content taxonomies 2.0, 2.1 and 2.2 (AdCOM, category taxonomies).
fn is_content_2(taxonomy: &Value) -> bool {
    [2.0, 5.0, 6.0].map(Some).contains(&number(taxonomy))
}

/// What the campaigns' categories are in these, and what is above that (IAB Tech Lab, Content 1.0 to Content 2.0).
fn content_2(category: &str) -> &'static [&'static str] {
    match category {
        "IAB7-39" => &["307", "287", "286"],
        "IAB3" => &["52"],
        _ => &[],
    }
}

/// A property of a player, by AdCOM's number or by the word of a campaign, in one form.
fn property(field: &str, value: &Value) -> String {
    let words: &[&str] = match field {
        "plcmt" => &["instream", "accompanying", "interstitial", "standalone"],
        "placement" => &["instream", "inbanner", "inarticle", "infeed", "floating"],
        _ => &[],
    };
    match number(value) {
        Some(0.0) if field == "startdelay" => "pre-roll".into(),
        Some(-2.0) if field == "startdelay" => "post-roll".into(),
        Some(delay) if field == "startdelay" && (delay > 0.0 || delay == -1.0) => "mid-roll".into(),
        Some(number) => number.to_string(),
        None => match words.iter().position(|word| value == word) {
            Some(at) => (at + 1).to_string(),
            None => text(value),
        },
    }
}

/// The items of a list; one value is a list of one, null none.
fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).collect(),
        one => vec![one],
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}

/// Is a domain one or below one, however that is written: an address, a wildcard, with a dot in front?
fn is_below(domain: &str, of: &str) -> bool {
    let of = of.trim().to_lowercase();
    let of = of.split("://").last().unwrap_or("");
    let of = of.split(['/', '?', ':']).next().unwrap_or("").trim_start_matches("*.");
    let of = of.trim_matches('.');
    let domain = domain.trim_matches('.').to_lowercase();
    !of.is_empty() && (domain == of || domain.ends_with(&format!(".{of}")))
}

/// The domain of a site, or of its page.
fn host_of(site: &Value) -> String {
    let domain = text(&site["domain"]);
    if !domain.is_empty() {
        return domain;
    }
    let page = text(&site["page"]);
    let host = page.split("://").nth(1).unwrap_or("");
    host.split(['/', '?', '#']).next().unwrap_or("").split(':').next().unwrap_or("").to_string()
}
